//! Reads the version, members, alarms and sizes that an etcd reports. All of it comes from the
//! member's memory: no request is a proposal or reads a key.

use std::fmt;

use etcd_api::client::Client;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{MemberListRequest, StatusRequest};
use report::quantity::Quantity;

/// An etcd's description of itself and of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Version of the member that responded.
    pub version: String,
    /// Names of the members; empty if they are unknown. Listing them needs no permission, but a
    /// proxy may refuse it.
    pub members: Vec<String>,
    /// Name or ID of the leader; `None` if there is none.
    pub leader: Option<String>,
    /// Alarms and errors, in the server's words. An endpoint with any is not measured.
    pub alarms: Vec<String>,
    /// The database size at which writes are refused, in bytes; `None` if it is not reported (etcd
    /// before 3.6).
    pub quota_bytes: Option<u64>,
    /// The size of the database file, in bytes.
    pub database_bytes: u64,
    /// The part of the file that is in use, in bytes, which no list can exceed; `None` if it is not
    /// reported.
    pub in_use_bytes: Option<u64>,
}

impl Identity {
    /// Queries one member, whichever the client is connected to. Alarms are read from its status:
    /// the RPC for alarms is a proposal, which every member writes to its disk.
    ///
    /// # Errors
    /// [`EtcdError`] if the status cannot be read.
    pub async fn ask(client: &Client) -> Result<Self, EtcdError> {
        let status = client.maintenance().status(StatusRequest {}).await?;
        let status = status.into_inner();
        let request = MemberListRequest {
            linearizable: false,
        };
        let members = match client.cluster().member_list(request).await {
            Ok(answer) => answer.into_inner().members,
            // Members are optional: a store with etcd's protocol need not have any.
            Err(_) => Vec::new(),
        };
        let named = |id: u64| {
            let member = members.iter().find(|member| member.id == id);
            member.map_or_else(|| format!("{id:x}"), |member| member.name.clone())
        };
        let some = |size: i64| u64::try_from(size).ok().filter(|&size| size > 0);
        Ok(Self {
            version: status.version,
            leader: (status.leader != 0).then(|| named(status.leader)),
            members: members.iter().map(|member| member.name.clone()).collect(),
            alarms: status.errors,
            quota_bytes: some(status.db_size_quota),
            database_bytes: some(status.db_size).unwrap_or(0),
            in_use_bytes: some(status.db_size_in_use),
        })
    }
}

/// Formats the description on one line.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version,
            members,
            leader,
            alarms,
            ..
        } = self;
        write!(f, "etcd {version}, ")?;
        match members.len() {
            0 => f.write_str("members not told")?,
            1 => f.write_str("1 member")?,
            n => write!(f, "{n} members")?,
        }
        match leader {
            Some(leader) => write!(f, ", leader {leader}")?,
            None => f.write_str(", leader not told")?,
        }
        write!(f, ", database {}", Quantity::bytes(self.database_bytes))?;
        if let Some(in_use) = self.in_use_bytes {
            write!(f, " ({} in use)", Quantity::bytes(in_use))?;
        }
        match self.quota_bytes {
            Some(quota) => write!(f, " of a quota of {}", Quantity::bytes(quota))?,
            None => f.write_str(", quota not told")?,
        }
        match alarms.is_empty() {
            true => f.write_str(", no alarm"),
            false => write!(f, ", ALARM: {}", alarms.join("; ").trim_end()),
        }
    }
}
