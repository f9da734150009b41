//! The one door: bytes in, commands played to the machine and to its twin, and everything compared after each.

pub use super::ledger::Tally;

use super::change::{KEYS, MODELS, NODES, change, first_settings, pick};
use super::ledger::Ledger;
use super::model::{Model, ticket_of};
use iop_edge::admission::{
    Api, Command, Config, Context, Generation, Grant, LeaseId, Machine, Request, Snapshot, Ticket,
};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that make one command. A rest shorter than that is ignored.
pub const BYTES_PER_COMMAND: usize = 6;

/// Plays the bytes as commands; gives back what happened how often, or the first difference and all that led to it.
pub fn run_commands(bytes: &[u8]) -> Result<Tally, String> {
    let mut world = World::open()?;
    let mut played = Vec::new();
    for chunk in bytes.chunks_exact(BYTES_PER_COMMAND) {
        let command = world.decode(chunk.try_into().expect("chunks are exact"));
        played.push(command.clone());
        world.play(command).map_err(|error| {
            let lines: Vec<String> = played.iter().map(|command| format!("  {command:?}")).collect();
            format!("after\n{}\n{error}", lines.join("\n"))
        })?;
    }
    Ok(world.ledger.tally)
}

struct World {
    machine: Machine,
    model: Model,
    ledger: Ledger,
    config: Config,
    now: Duration,
    /// By node: the generation last given out.
    generations: [u64; NODES.len()],
    tickets: u64,
}

impl World {
    /// Everything configured, connected and applied.
    fn open() -> Result<Self, String> {
        let mut world = Self {
            machine: Machine::default(),
            model: Model::default(),
            ledger: Ledger::default(),
            config: first_settings(),
            now: Duration::ZERO,
            generations: [0; NODES.len()],
            tickets: 0,
        };
        world.play(Command::Configure(Box::new(world.config.clone())))?;
        for node in 0..NODES.len() {
            let online = world.online(node);
            world.play(online)?;
            world.play(world.applied(node))?;
        }
        Ok(world)
    }

    fn play(&mut self, command: Command) -> Result<(), String> {
        self.ledger.count("commands");
        let answered = self.begin(&command);
        let expected = self.model.apply(self.now, &command);
        let mut effects = Vec::new();
        self.machine.apply(self.now, command, &mut effects);
        self.ledger.enter(&effects, answered)?;
        let snapshot = self.machine.snapshot();
        self.ledger.check(&snapshot, &effects)?;
        effects.sort_by_key(ticket_of);
        if effects != expected {
            return Err(format!("the machine says {effects:?}, the lists say {expected:?}"));
        }
        compare(&snapshot, &self.model.snapshot())?;
        if self.machine.next_deadline() != self.model.next_deadline() {
            return Err(format!("the machine's next deadline is {:?}", self.machine.next_deadline()));
        }
        self.check_waiting()
    }

    /// Nothing waits that could run, and nothing waits for nobody.
    fn check_waiting(&self) -> Result<(), String> {
        if !self.model.waiting().iter().map(|pending| pending.ticket).eq(self.ledger.waiting.iter().copied())
        {
            return Err(format!("{:?} should wait", self.ledger.waiting));
        }
        for pending in self.model.waiting() {
            if self.model.can_run_now(pending) || !self.model.has_live_candidate(pending) {
                return Err(format!("should not wait: {pending:?}"));
            }
        }
        Ok(())
    }

    /// Enters in the ledger what the command itself ends; gives back the ticket that it must answer.
    fn begin(&mut self, command: &Command) -> Option<Ticket> {
        match command {
            Command::Submit(_) => {
                self.tickets += 1;
                Some(Ticket(self.tickets))
            }
            Command::Retry(grant) => {
                let held = self.model.holds(grant.lease);
                self.ledger.count(if held { "retry" } else { "retry of a fenced lease" });
                self.ledger.running.retain(|running| running.lease != grant.lease);
                self.ledger.returned.push(grant.lease);
                Some(grant.pending.ticket)
            }
            Command::Cancel(ticket) => {
                self.ledger.count("cancel");
                if self.ledger.waiting.contains(ticket) {
                    self.ledger.end(*ticket);
                }
                None
            }
            Command::Release(lease) => {
                self.begin_release(*lease);
                None
            }
            _ => None,
        }
    }

    fn begin_release(&mut self, lease: LeaseId) {
        let position = self.ledger.running.iter().position(|grant| grant.lease == lease);
        let Some(position) = position else { return self.ledger.count("second release") };
        let held = self.model.holds(lease);
        self.ledger.count(if held { "release" } else { "late release of a fenced lease" });
        let grant = self.ledger.running.remove(position);
        self.ledger.end(grant.pending.ticket);
        self.ledger.returned.push(lease);
    }

    /// The command that the bytes stand for. Where there is nothing to act upon, time passes instead.
    fn decode(&mut self, [kind, a, b, c, d, e]: [u8; BYTES_PER_COMMAND]) -> Command {
        self.now += Duration::from_millis(u64::from(e % 4));
        let node = usize::from(a) % NODES.len();
        match kind % 72 {
            0..=19 => Command::Submit(request([a, b, c, d])),
            20..=29 => self.running(a).map_or(Command::Tick, |grant| Command::Release(grant.lease)),
            30 => pick_from(&self.ledger.returned, a).map_or(Command::Tick, Command::Release),
            31..=33 => self.waiting(a).map_or(Command::Tick, Command::Cancel),
            34..=38 => self.running(a).map_or(Command::Tick, Command::Retry),
            39..=40 => self.online(node),
            41 => self.offline(node, self.generations[node]),
            42 => {
                self.ledger.count("stale offline");
                self.offline(node, self.generations[node].saturating_sub(1 + u64::from(b % 2)))
            }
            43 => self.node_online(node, self.generations[node].saturating_sub(u64::from(b % 2))),
            44..=50 => self.applied(node),
            51..=52 => self.applied_partly(node, [b, c, d]),
            53..=55 => self.pass(a, b),
            56..=62 => self.configure(&[[a, b, c]]),
            63 => self.configure(&[[a, b, c], [b, c, d], [c, d, e]]),
            64..=69 => self.running(a).map_or(Command::Tick, |grant| self.unreachable(grant)),
            _ => self.running(a).map_or(Command::Tick, |grant| self.reached(grant)),
        }
    }

    fn running(&self, choice: u8) -> Option<Grant> {
        pick_from(&self.ledger.running, choice)
    }

    fn unreachable(&mut self, grant: Grant) -> Command {
        self.ledger.count(if grant.failures > 0 { "unreachable again" } else { "unreachable" });
        let Grant { provider, generation, failures, .. } = grant;
        Command::Unreachable { provider, generation, failures }
    }

    fn reached(&mut self, grant: Grant) -> Command {
        self.ledger.count(if grant.failures > 0 { "reached again" } else { "reached" });
        Command::Reached { provider: grant.provider, generation: grant.generation }
    }

    fn waiting(&self, choice: u8) -> Option<Ticket> {
        let waiting: Vec<Ticket> = self.ledger.waiting.iter().copied().collect();
        pick_from(&waiting, choice)
    }

    fn online(&mut self, node: usize) -> Command {
        self.generations[node] += 1;
        self.ledger.count("online");
        self.node_online(node, self.generations[node])
    }

    fn node_online(&self, node: usize, generation: u64) -> Command {
        Command::NodeOnline { node: NODES[node].into(), generation: Generation(generation) }
    }

    fn offline(&self, node: usize, generation: u64) -> Command {
        Command::NodeOffline { node: NODES[node].into(), generation: Generation(generation) }
    }

    /// The node has the present settings in force, all of them.
    fn applied(&self, node: usize) -> Command {
        let of_node = self.config.providers.iter().filter(|(key, _)| *key.node == *NODES[node]);
        let providers = of_node.map(|(key, spec)| (key.provider.clone(), Some(spec.capacity))).collect();
        let generation = Generation(self.generations[node]);
        Command::Applied { node: NODES[node].into(), generation, providers }
    }

    /// Only some providers, or other capacities than now configured, or refused, or under another generation.
    fn applied_partly(&mut self, node: usize, [one, other, generation]: [u8; 3]) -> Command {
        let answer = |byte: u8| if byte % 8 == 5 { None } else { Some(u32::from(byte % 4)) };
        let mut providers: Vec<(Arc<str>, Option<u32>)> = vec![("1".into(), answer(one))];
        if other % 2 == 1 {
            providers.push(("2".into(), answer(other / 2)));
        }
        self.ledger.count(if generation % 4 == 0 { "stale applied" } else { "partly applied" });
        let generation = Generation(self.generations[node].saturating_sub(u64::from(generation % 4 == 0)));
        Command::Applied { node: NODES[node].into(), generation, providers }
    }

    /// Time passes: to the next deadline, to just before it, or by any number of milliseconds.
    fn pass(&mut self, how: u8, milliseconds: u8) -> Command {
        let due = self.machine.next_deadline().unwrap_or(self.now);
        let until = match how % 4 {
            0 | 1 => due,
            2 => due.saturating_sub(Duration::from_millis(1)),
            _ => self.now + Duration::from_millis(u64::from(milliseconds)),
        };
        self.now = self.now.max(until);
        Command::Tick
    }

    fn configure(&mut self, changes: &[[u8; 3]]) -> Command {
        self.ledger.count("configure");
        for bytes in changes {
            change(&mut self.config, *bytes);
        }
        Command::Configure(Box::new(self.config.clone()))
    }
}

/// The first difference of two snapshots.
fn compare(machine: &Snapshot, lists: &Snapshot) -> Result<(), String> {
    let mut pairs = machine.providers.iter().zip(&lists.providers);
    if let Some((shown, expected)) = pairs.find(|(shown, expected)| shown != expected) {
        return Err(format!("the machine shows {shown:?}, the lists show {expected:?}"));
    }
    if machine != lists {
        return Err(format!("the machine shows {machine:?}, the lists show {lists:?}"));
    }
    Ok(())
}

fn pick_from<T: Clone>(list: &[T], choice: u8) -> Option<T> {
    let position = usize::from(choice).checked_rem(list.len())?;
    list.get(position).cloned()
}

fn request([model, size, context, key]: [u8; 4]) -> Request {
    Request {
        // The last one is never configured, so it is asked for less often.
        model: if model % 32 == 31 { MODELS[4] } else { pick(&MODELS[..4], model) }.into(),
        api: pick(&[Api(1), Api(1), Api(1), Api(2)], size / 8),
        // On, under and over the thresholds and windows of `change`.
        tokens: pick(&[10, 50, 10, 100, 10, 200, 1000, 3000], size),
        context: pick(&[Context::Estimated, Context::Estimated, Context::Long, Context::Normal], context),
        key: (key % 4 != 0).then(|| pick(&KEYS, key / 4).into()),
    }
}
