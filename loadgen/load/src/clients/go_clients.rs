//! Where the programs of Go clients are.

use std::path::PathBuf;

use workloads::GoClient;

/// Where `scripts/oracle` puts programs.
const INSTALLED: &str = ".tools/bin";

/// Where the programs are.
#[derive(Debug, Clone, Default)]
pub struct GoClients {
    /// The folder that `--go-clients` names.
    pub folder: Option<PathBuf>,
    /// What starts them so that they die with us: our own program.
    pub own_program: PathBuf,
}

impl GoClients {
    /// Returns the program of a client: in the folder that was named, as its variable says, or
    /// where `scripts/oracle` puts it.
    ///
    /// # Errors
    /// Why there is none, and how to get it.
    pub fn program(&self, client: GoClient) -> Result<PathBuf, String> {
        let name = client.program();
        let variable = format!("{}_BIN", name.replace('-', "_").to_uppercase());
        let path = match (&self.folder, std::env::var_os(&variable)) {
            (Some(folder), _) => folder.join(name),
            (None, Some(path)) => PathBuf::from(path),
            (None, None) => PathBuf::from(INSTALLED).join(name),
        };
        if path.is_file() {
            return Ok(path);
        }
        Err(format!(
            "there is no {}: `scripts/oracle {name}` builds it, and {variable} or --go-clients says where it is",
            path.display()
        ))
    }
}
