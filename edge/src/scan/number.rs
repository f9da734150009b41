//! The grammar and range of JSON numbers, byte by byte. The range is serde_json's, down to how it drops digits: a number
//! that it would make infinite is refused, so that no provider sees a body that another reader would refuse.

/// A number being read.
#[derive(Debug, Default)]
pub(super) struct NumberScan {
    part: Part,
    negative: bool,
    /// The leading digits, as far as they fit.
    significand: u64,
    /// Power of ten of the significand's last digit.
    scale: i32,
    /// Digits of the integer did not fit any more.
    long: bool,
    /// Digits of the fraction did not fit any more; the rest of them do not count.
    full: bool,
    exponent: i32,
    negative_exponent: bool,
    /// The exponent itself did not fit.
    exponent_overflow: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// What a byte did to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberStep {
    /// It belongs to the number.
    Taken,
    /// The number was complete before it.
    Complete,
    /// The number cannot go on so.
    Wrong,
}

impl NumberScan {
    /// Takes the next byte, if it is one of the number's.
    pub(super) fn step(&mut self, byte: u8) -> NumberStep {
        use Part::{E, Exponent, Fraction, Integer, Minus, Point, Sign, Start, Zero};
        let next = match (self.part, byte) {
            (Start, b'-') => {
                self.negative = true;
                Minus
            }
            (Start | Minus, b'0') => Zero,
            (Start | Minus | Integer, b'0'..=b'9') => {
                self.integer_digit(byte - b'0');
                Integer
            }
            (Zero | Integer, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => {
                self.fraction_digit(byte - b'0');
                Fraction
            }
            (Zero | Integer | Fraction, b'e' | b'E') => E,
            (E, b'+') => Sign,
            (E, b'-') => {
                self.negative_exponent = true;
                Sign
            }
            (E | Sign | Exponent, b'0'..=b'9') => {
                self.exponent_digit(byte - b'0');
                Exponent
            }
            // "01" is the only case where a complete number is followed by a byte that makes it wrong.
            (Zero, b'0'..=b'9') => return NumberStep::Wrong,
            (Zero | Integer | Fraction | Exponent, _) => return NumberStep::Complete,
            (Start | Minus | Point | E | Sign, _) => return NumberStep::Wrong,
        };
        self.part = next;
        NumberStep::Taken
    }

    fn integer_digit(&mut self, digit: u8) {
        match self.shifted(digit) {
            Some(significand) if !self.long => self.significand = significand,
            _ => {
                self.long = true;
                self.scale = self.scale.saturating_add(1);
            }
        }
    }

    fn fraction_digit(&mut self, digit: u8) {
        match self.shifted(digit) {
            Some(significand) if !self.full => {
                self.significand = significand;
                self.scale = self.scale.saturating_sub(1);
            }
            _ => self.full = true,
        }
    }

    fn exponent_digit(&mut self, digit: u8) {
        match self.exponent.checked_mul(10).and_then(|tens| tens.checked_add(i32::from(digit))) {
            Some(exponent) => self.exponent = exponent,
            None => self.exponent_overflow = true,
        }
    }

    fn shifted(&self, digit: u8) -> Option<u64> {
        self.significand.checked_mul(10)?.checked_add(u64::from(digit))
    }

    /// The value of a complete number, if it is written as a whole number that is not negative and fits.
    pub(super) fn whole(&self) -> Option<u64> {
        let plain = matches!(self.part, Part::Zero | Part::Integer) && !self.long && !self.negative;
        plain.then_some(self.significand)
    }

    /// Whether a complete number is beyond the range of a double.
    pub(super) fn out_of_range(&self) -> bool {
        /// Below this power of ten no significand of 64 bits overflows a double.
        const SAFE_SCALE: i32 = 288;
        /// The greatest power of ten that is a double.
        const LAST_SCALE: i32 = 308;
        if self.significand == 0 {
            return false;
        }
        if self.exponent_overflow {
            return !self.negative_exponent;
        }
        let scale = match self.negative_exponent {
            false => self.scale.saturating_add(self.exponent),
            true => self.scale.saturating_sub(self.exponent),
        };
        if scale <= SAFE_SCALE || scale > LAST_SCALE {
            return scale > LAST_SCALE;
        }
        let power: f64 = format!("1e{scale}").parse().expect("a power of ten up to 308 is a double");
        (self.significand as f64 * power).is_infinite()
    }
}
