//! Controls a headless Chromium over the DevTools protocol on a pipe: JSON messages that end with a
//! zero byte.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The timeout for one response of the browser. A hang then fails the test instead of blocking it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The observations while a page was opened.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// Errors and warnings of the console, exceptions, and requests that the browser refused.
    pub(crate) complaints: Vec<String>,
    /// The URLs that the page requested, other than its own.
    pub(crate) requests: Vec<String>,
    /// What the script returned.
    pub(crate) value: Value,
}

/// The colour scheme that the reader's system prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

/// The window in which a page is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// The width in pixels.
    pub(crate) width: u32,
    /// The colour scheme.
    pub(crate) scheme: Scheme,
}

/// A running browser with one tab. It is killed when dropped.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Value,
    last_id: u64,
    events: Vec<Value>,
}

impl Browser {
    /// Starts `program`, with its data in `folder`.
    pub(crate) fn start(program: &Path, folder: &Path) -> Self {
        let log = File::create(folder.join("browser.log")).expect("a writable folder");
        // The protocol's pipe is file descriptors 3 and 4, which the standard library cannot name.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 0</dev/null 1>&2"#, "sh"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", folder.join("data").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell");
        let to = child.stdin.take().expect("it is piped");
        let mut pipe = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, from) = channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop_if(|last| *last == 0);
                let value = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            session: Value::Null,
            last_id: 0,
            events: Vec::new(),
        };
        let tab = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": tab["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", attach)["sessionId"].clone();
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a file in a window. Returns the observations and the value of `script`.
    pub(crate) fn open(&mut self, file: &Path, window: Window, script: &str) -> Opened {
        let metrics = json!({
            "width": window.width, "height": 800, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = match window.scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", media);
        // Scrollbars would take 15 px of the width; those of a phone take none.
        self.call("Emulation.setScrollbarsHidden", json!({"hidden": true}));
        self.events.clear();
        let url = format!("file://{}", file.display());
        let navigated = self.call("Page.navigate", json!({"url": url}));
        assert!(navigated.get("errorText").is_none(), "{url}: {navigated}");
        while !self
            .events
            .iter()
            .any(|event| event["method"] == "Page.loadEventFired")
        {
            let event = self.receive();
            self.events.push(event);
        }
        let mut opened = Opened {
            value: self.evaluate(script),
            ..Opened::default()
        };
        for event in self.events.drain(..) {
            let parameters = &event["params"];
            match event["method"].as_str() {
                Some("Network.requestWillBeSent") => {
                    let requested = parameters["request"]["url"].as_str().unwrap_or_default();
                    if requested != url {
                        opened.requests.push(requested.to_owned());
                    }
                }
                Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded") => {
                    opened.complaints.push(parameters.to_string());
                }
                _ => {}
            }
        }
        opened
    }

    /// Returns the value of a script in the opened page.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let evaluate = json!({"expression": script, "returnByValue": true});
        let mut evaluated = self.call("Runtime.evaluate", evaluate);
        let exception = evaluated.get("exceptionDetails");
        assert!(exception.is_none(), "the test's own script: {evaluated}");
        evaluated["result"]["value"].take()
    }

    /// Presses and releases a key: `Tab` or `Enter`.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            other => panic!("no key `{other}`"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Saves a picture of the window in the folder that `LOADGEN_TEST_PICTURES` names, if any.
    pub(crate) fn picture(&mut self, window: Window) {
        let Some(folder) = std::env::var_os("LOADGEN_TEST_PICTURES") else {
            return;
        };
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let taken = self.call("Page.captureScreenshot", whole);
        let data = taken["data"].as_str().expect("a picture");
        let Window { width, scheme } = window;
        let file = Path::new(&folder).join(format!("page-{width}-{scheme:?}.png"));
        let bytes = STANDARD.decode(data).expect("it is in base64");
        std::fs::write(file, bytes).expect("a writable folder");
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": parameters});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let sent = self.to.write_all(format!("{message}\0").as_bytes());
        sent.expect("the browser reads what it is told");
        loop {
            let mut message = self.receive();
            if message["id"] == self.last_id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn receive(&self) -> Value {
        let received = self.from.recv_timeout(PATIENCE);
        received.expect("the browser runs and answers in time")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser is killed instead of closed, since its data is removed with the test's
        // folder.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
