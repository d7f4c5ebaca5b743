//! Zipf's distribution over 1..=n with any exponent above 0, exactly and in O(1).

use rand_xoshiro::rand_core::Rng;

use crate::random::uniform;

/// A sampler by rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", TOMACS 6 (3), 1996. It integrates the hat
/// h(x) = x^−q, inverts the integral, and rejects at most a few percent.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    n: f64,
    exponent: f64,
    /// The value of h's integral at the start of rank 1's own mass; `to` is its value at n + ½.
    from: f64,
    to: f64,
    /// Ranks that exceed their sample by at most this are accepted without evaluating h.
    squeeze: f64,
}

impl Zipf {
    pub(super) fn new(n: u64, exponent: f64) -> Self {
        let n = n as f64;
        let integral = |x| integral(x, exponent);
        let two = inverse(integral(2.5) - hat(2.0, exponent), exponent);
        Self {
            n,
            exponent,
            from: integral(1.5) - 1.0,
            to: integral(n + 0.5),
            squeeze: 2.0 - two,
        }
    }

    /// Returns a rank from 1 to n.
    pub(super) fn sample(&self, random: &mut impl Rng) -> u64 {
        loop {
            let u = self.to + uniform(random) * (self.from - self.to);
            let x = inverse(u, self.exponent);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.squeeze
                || u >= integral(k + 0.5, self.exponent) - hat(k, self.exponent)
            {
                return k as u64;
            }
        }
    }
}

/// Returns h(x) = x^−q.
fn hat(x: f64, q: f64) -> f64 {
    libm::exp(-q * libm::log(x))
}

/// Returns ∫h: (x^(1−q) − 1) / (1 − q), or ln x for q = 1, without cancellation near q = 1.
fn integral(x: f64, q: f64) -> f64 {
    let log = libm::log(x);
    expm1_over((1.0 - q) * log) * log
}

/// Returns the x whose integral is `y`.
fn inverse(y: f64, q: f64) -> f64 {
    let t = (y * (1.0 - q)).max(-1.0);
    libm::exp(log1p_over(t) * y)
}

/// Returns (eˣ − 1) / x, which is 1 at 0.
fn expm1_over(x: f64) -> f64 {
    match x.abs() > 1e-8 {
        true => libm::expm1(x) / x,
        false => 1.0 + x / 2.0,
    }
}

/// Returns ln(1 + x) / x, which is 1 at 0.
fn log1p_over(x: f64) -> f64 {
    match x.abs() > 1e-8 {
        true => libm::log1p(x) / x,
        false => 1.0 - x / 2.0,
    }
}
