//! What an etcd says of itself and of its cluster, from its own memory: nothing here is a proposal
//! or reads a key.

use std::fmt;

use etcd_api::client::Client;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{MemberListRequest, StatusRequest};
use report::quantity::Quantity;

/// What an etcd says of itself and of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Version of the member that answered.
    pub version: String,
    /// Names of the members; empty where they are not told, which takes no rights but may be
    /// refused by a proxy.
    pub members: Vec<String>,
    /// Name, or number, of the leader; `None` while there is none.
    pub leader: Option<String>,
    /// Alarms and errors, in the server's words. An endpoint with any of them is not measured.
    pub alarms: Vec<String>,
    /// Size at which it refuses writes; `None` where it does not tell (etcd before 3.6).
    pub quota_bytes: Option<u64>,
    /// Size of its database file.
    pub database_bytes: u64,
    /// How much of that is in use, which no list of it can exceed; `None` where it does not tell.
    pub in_use_bytes: Option<u64>,
}

impl Identity {
    /// Asks one member, whichever the client is connected to. Alarms come from its status: to ask
    /// for them by their own call is a proposal, which every member writes to its disk.
    ///
    /// # Errors
    /// [`EtcdError`] when it does not give its status.
    pub async fn ask(client: &Client) -> Result<Self, EtcdError> {
        let status = client.maintenance().status(StatusRequest {}).await?;
        let status = status.into_inner();
        let request = MemberListRequest {
            linearizable: false,
        };
        let members = match client.cluster().member_list(request).await {
            Ok(answer) => answer.into_inner().members,
            // It is told as a courtesy: a store that speaks etcd's protocol need not have members.
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

/// One line.
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
