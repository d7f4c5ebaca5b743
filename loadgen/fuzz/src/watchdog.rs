//! Detects inputs for which a target does not return. A loop cannot be unwound, so another thread
//! reports the input, and then ends the process.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::Target;

/// Time limit of one input. The slowest takes milliseconds.
pub const LIMIT: Duration = Duration::from_secs(10);

/// The input that is being run, if any: the target's name, the start time, and the bytes.
type UnderWay = Option<(&'static str, Instant, Vec<u8>)>;

/// Watches the inputs of one thread until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    under_way: Arc<Mutex<UnderWay>>,
}

impl Watchdog {
    /// Starts a watchdog. `hangs` is called once, with the target's name and the input that has run
    /// for longer than `limit`.
    pub fn start(limit: Duration, hangs: impl FnOnce(&str, &[u8]) + Send + 'static) -> Self {
        let under_way: Arc<Mutex<UnderWay>> = Arc::default();
        let seen = Arc::downgrade(&under_way);
        thread::spawn(move || look(&seen, limit, hangs));
        Self { under_way }
    }

    /// Runs a target on an input. Panics if the target panics.
    pub fn run(&self, target: &Target, input: &[u8]) {
        // The input is removed even if the target panics.
        let _forget = Forget(self);
        self.set(Some((target.name, Instant::now(), input.to_vec())));
        (target.run)(input);
    }

    fn set(&self, input: UnderWay) {
        *self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = input;
    }
}

struct Forget<'w>(&'w Watchdog);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

fn look(seen: &Weak<Mutex<UnderWay>>, limit: Duration, hangs: impl FnOnce(&str, &[u8])) {
    loop {
        thread::sleep(limit / 10);
        let Some(under_way) = seen.upgrade() else {
            return;
        };
        let under_way = under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((name, since, input)) = under_way
            && since.elapsed() > limit
        {
            return hangs(name, &input);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Both ends of a channel, for a function without captures.
    type Ends = (Mutex<Sender<()>>, Mutex<Receiver<()>>);

    /// The channel that ends a hanging target once the watchdog has reported it.
    static END: LazyLock<Ends> = LazyLock::new(|| {
        let (sender, receiver) = channel();
        (Mutex::new(sender), Mutex::new(receiver))
    });

    #[test]
    fn an_input_that_hangs_is_told_while_it_does() {
        let hanging = Target {
            name: "hanging",
            run: |_| {
                let end = END.1.lock().expect("no panic holds it");
                let told = end.recv_timeout(Duration::from_secs(60));
                told.expect("the watchdog tells of it");
            },
            seeds: Vec::new,
        };
        let (told, tells) = channel();
        let watchdog = Watchdog::start(Duration::from_millis(50), move |name, input| {
            told.send((name.to_owned(), input.to_vec()))
                .expect("the test waits");
            let end = END.0.lock().expect("no panic holds it");
            end.send(()).expect("the target waits");
        });
        watchdog.run(&hanging, b"input");
        assert_eq!(tells.recv(), Ok(("hanging".to_owned(), b"input".to_vec())));
    }
}
