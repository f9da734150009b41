//! What one decision of admission costs: the pure machine alone, without lock, wakeup or network.
//! `tests/benches/README.md` has the table and the command that makes it.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use iop_edge::admission::{
    Api, Command, Config, Context, Effect, Generation, Grant, LeaseId, Machine, ModelSpec, ProviderKey,
    Request,
};
use iop_tests::admission_model::{long_slots, provider_key};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// How models and providers are connected.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    models: usize,
    providers: usize,
    /// Providers of a model, by its number.
    candidates: fn(usize) -> Vec<usize>,
    /// Leases of how many providers, counted from the first, return by turns.
    turns: usize,
}

const SHAPES: [Shape; 8] = [
    Shape { name: "1 model, 1 provider", models: 1, providers: 1, candidates: |_| vec![0], turns: 1 },
    Shape {
        name: "100 models, 100 providers, 1 each",
        models: 100,
        providers: 100,
        candidates: |n| vec![n],
        turns: 100,
    },
    Shape {
        name: "1000 models, 1000 providers, 1 each",
        models: 1000,
        providers: 1000,
        candidates: |n| vec![n],
        turns: 1000,
    },
    Shape {
        name: "1000 models, 1000 providers, 3 each",
        models: 1000,
        providers: 1000,
        candidates: |n| vec![n, (n + 1) % 1000, (n + 2) % 1000],
        turns: 1000,
    },
    Shape { name: "1000 models, 1 provider", models: 1000, providers: 1, candidates: |_| vec![0], turns: 1 },
    Shape {
        name: "1 model, 100 providers",
        models: 1,
        providers: 100,
        candidates: |_| (0..100).collect(),
        turns: 100,
    },
    Shape {
        name: "1 model, 1000 providers",
        models: 1,
        providers: 1000,
        candidates: |_| (0..1000).collect(),
        turns: 1000,
    },
    // The widest case: what waits for the one provider is in as many classes as there are models.
    Shape {
        name: "1000 models, each on 1 shared provider and 1 of its own",
        models: 1000,
        providers: 1001,
        candidates: |n| vec![0, n + 1],
        turns: 1,
    },
];

/// A machine with its clock stopped, and the buffer that its effects go to.
struct Bench {
    machine: Machine,
    effects: Vec<Effect>,
    models: Vec<Arc<str>>,
}

impl Bench {
    /// Everything configured, connected and applied; every provider with this capacity.
    fn open(shape: Shape, capacity: u32) -> Self {
        let name = |number: usize| format!("node-{:04}/provider-{number:04}", number / 4);
        let keys: Vec<ProviderKey> = (0..shape.providers).map(|number| provider_key(&name(number))).collect();
        let models: Vec<Arc<str>> =
            (0..shape.models).map(|number| format!("model-{number:04}").into()).collect();
        let mut config = Config::default();
        config.policy.max_queue = u32::MAX;
        for key in &keys {
            config.providers.insert(key.clone(), long_slots(capacity, 1));
        }
        for (number, model) in models.iter().enumerate() {
            let candidates = (shape.candidates)(number).into_iter().map(|provider| keys[provider].clone());
            let spec = ModelSpec { long_threshold: Some(32_768), candidates: candidates.collect() };
            config.models.insert(model.clone(), spec);
        }
        let mut bench = Self { machine: Machine::default(), effects: Vec::new(), models };
        bench.apply(Command::Configure(Box::new(config)));
        for node in keys.chunks(4) {
            let (id, generation) = (node[0].node.clone(), Generation(1));
            bench.apply(Command::NodeOnline { node: id.clone(), generation });
            let providers = node.iter().map(|key| (key.provider.clone(), Some(capacity))).collect();
            bench.apply(Command::Applied { node: id, generation, providers });
        }
        bench
    }

    fn apply(&mut self, command: Command) {
        self.machine.apply(Duration::ZERO, command, &mut self.effects);
    }

    /// A request for a model, by number, going round.
    fn request(&self, number: usize) -> Request {
        let model = self.models[number % self.models.len()].clone();
        Request { model, api: Api(1), tokens: 100, context: Context::Estimated, key: None }
    }

    /// Gives back the grant, if there was a free slot.
    fn submit(&mut self, request: Request) -> Option<Grant> {
        self.effects.clear();
        self.apply(Command::Submit(request));
        self.granted()
    }

    /// Gives back the grant of the waiting request that got the slot.
    fn release(&mut self, lease: LeaseId) -> Option<Grant> {
        self.effects.clear();
        self.apply(Command::Release(lease));
        self.granted()
    }

    fn granted(&mut self) -> Option<Grant> {
        match black_box(&mut self.effects).pop() {
            Some(Effect::Granted(grant)) => Some(grant),
            _ => None,
        }
    }
}

fn submit_and_release(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("submit and release on a free provider");
    for shape in SHAPES {
        let mut bench = Bench::open(shape, 4);
        let mut number = 0;
        group.bench_function(shape.name, |bencher| {
            bencher.iter(|| {
                number += 1;
                let request = bench.request(number);
                let grant = bench.submit(request).expect("a provider is free");
                bench.release(grant.lease)
            });
        });
    }
}

/// A lease returns, the earliest waiting request gets it, and the same request queues again: as many wait as before.
fn release_and_grant(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("release, grant, queue another");
    for shape in SHAPES {
        for waiting in [100, 10_000] {
            let mut bench = Bench::open(shape, 1);
            let requests = (0..).map(|number| bench.request(number)).take(shape.providers + waiting);
            let requests: Vec<Request> = requests.collect();
            let (first, others) = requests.split_at(shape.providers);
            let submit = |request: &Request| bench.submit(request.clone());
            let grants: Vec<Option<Grant>> = requests.iter().map(submit).collect();
            let held = grants[..first.len()].iter().flatten().map(|grant| grant.lease);
            let mut held: Vec<LeaseId> = held.collect();
            assert_eq!(held.len(), shape.providers, "every provider runs one");
            assert_eq!(bench.machine.snapshot().queue.length, others.len(), "all others wait");
            // Only as many providers take turns as have somebody who waits for them.
            held.truncate(shape.turns.min(waiting));
            let mut turn = 0;
            group.bench_function(BenchmarkId::new(shape.name, waiting), |bencher| {
                bencher.iter(|| {
                    let grant = bench.release(held[turn]).expect("somebody waits for it");
                    held[turn] = grant.lease;
                    turn = (turn + 1) % held.len();
                    bench.submit(grant.pending.request)
                });
            });
        }
    }
}

criterion_group!(benches, submit_and_release, release_and_grant);
criterion_main!(benches);
