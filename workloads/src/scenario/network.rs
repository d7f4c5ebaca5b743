//! The emulated network between the generator and the servers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units::{ByteSize, duration_text, parse_with_unit};

/// Units of a bandwidth, in bits per second.
const UNITS: [(&str, u64); 4] = [
    ("Gbit", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];
/// The lowest bandwidth: below it, a single frame takes seconds.
const MIN_BITS_PER_S: u64 = 8_000;
/// The longest round trip.
const MAX_RTT: Duration = Duration::from_secs(10);

/// The emulated network between clients and servers.
///
/// In a scenario file: `{ rtt = "20ms", bandwidth = "100Mbit", client_read_rate = "10MiB" }`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The round-trip time.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub rtt: Option<Duration>,
    /// The bandwidth in each direction, shared by all connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Bytes that the client of each connection reads per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_read_rate: Option<ByteSize>,
}

impl Network {
    /// Checks that at least one field is given and that all values can be emulated.
    ///
    /// # Errors
    /// The field and its value, if a value is out of range or no field is given.
    pub fn check(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Err("network: none of rtt, bandwidth and client_read_rate is given".to_owned());
        }
        if let Some(rtt) = self.rtt.filter(|rtt| *rtt > MAX_RTT) {
            return Err(format!("network: rtt {rtt:?} is longer than {MAX_RTT:?}"));
        }
        if let Some(bandwidth) = self.bandwidth.filter(|b| b.0 < MIN_BITS_PER_S) {
            return Err(format!("network: bandwidth {bandwidth} is below 8kbit"));
        }
        match self.client_read_rate {
            Some(ByteSize(rate)) if u64::from(rate) * 8 < MIN_BITS_PER_S => Err(format!(
                "network: client_read_rate {rate} is below 1000 bytes a second"
            )),
            _ => Ok(()),
        }
    }
}

/// Writes the network as part of a case's name, like `rtt-20ms-at-100Mbit-read-at-10MiB`.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rtt = self.rtt.map(humantime::format_duration);
        let words = [
            rtt.map(|rtt| format!("rtt-{rtt}").replace(' ', "")),
            self.bandwidth.map(|bandwidth| format!("at-{bandwidth}")),
            self.client_read_rate.map(|rate| format!("read-at-{rate}")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        f.write_str(&words.join("-"))
    }
}

/// Bits per second, written with their unit: `100Mbit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bandwidth(pub u64);

impl Bandwidth {
    /// Returns the rate in bytes per second.
    #[must_use]
    pub fn bytes_per_s(self) -> u64 {
        self.0 / 8
    }
}

/// An invalid bandwidth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a bandwidth like `100Mbit` or `1Gbit`")]
pub struct BandwidthError(String);

impl FromStr for Bandwidth {
    type Err = BandwidthError;

    fn from_str(text: &str) -> Result<Self, BandwidthError> {
        let bits = parse_with_unit(text, &UNITS);
        bits.map(Self)
            .ok_or_else(|| BandwidthError(text.to_owned()))
    }
}

impl TryFrom<String> for Bandwidth {
    type Error = BandwidthError;

    fn try_from(text: String) -> Result<Self, BandwidthError> {
        text.parse()
    }
}

impl From<Bandwidth> for String {
    fn from(bandwidth: Bandwidth) -> Self {
        bandwidth.to_string()
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut units = UNITS.iter();
        let fitting = units.find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit));
        let (name, unit) = fitting.unwrap_or(&UNITS[3]);
        write!(f, "{}{name}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_and_named_by_what_it_has() {
        let network = |text: &str| -> Network { toml::from_str(text).expect("a network") };
        let slow = network("rtt = \"20ms\"\nbandwidth = \"100Mbit\"\nclient_read_rate = \"10MiB\"");
        assert_eq!(slow.check(), Ok(()));
        assert_eq!(slow.to_string(), "rtt-20ms-at-100Mbit-read-at-10MiB");
        let far = network("rtt = \"1500us\"");
        assert_eq!(far.to_string(), "rtt-1ms500us");
        assert_eq!(slow.bandwidth.map(Bandwidth::bytes_per_s), Some(12_500_000));
    }

    #[test]
    fn what_cannot_be_emulated_is_refused_with_its_value() {
        let refused = |text: &str| {
            let network: Network = toml::from_str(text).expect("a network");
            network.check().expect_err("no network")
        };
        assert!(refused("").contains("none of"));
        assert!(refused("rtt = \"11s\"").contains("11s"));
        assert!(refused("bandwidth = \"7kbit\"").contains("7kbit"));
        assert!(refused("client_read_rate = \"100B\"").contains("100"));
        for bad in ["100", "Mbit", "1.5Gbit", "-1Mbit", "99999999999Gbit"] {
            let error = bad.parse::<Bandwidth>().expect_err("no bandwidth");
            assert!(error.to_string().contains(bad), "{error}");
        }
    }
}
