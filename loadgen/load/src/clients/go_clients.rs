//! The location of the Go clients' programs.

use std::path::PathBuf;

use workloads::GoClient;

/// The folder in which `scripts/oracle` installs programs.
const INSTALLED: &str = ".tools/bin";

/// The location of the Go clients' programs.
#[derive(Debug, Clone, Default)]
pub struct GoClients {
    /// The folder given by `--go-clients`.
    pub folder: Option<PathBuf>,
    /// Loadgen's own program, which starts them so that they end with it.
    pub own_program: PathBuf,
}

impl GoClients {
    /// Returns the path of a client's program: in the folder given by `--go-clients`, or else the
    /// one in its environment variable, or else where `scripts/oracle` installs it.
    ///
    /// # Errors
    /// A text that says which program is missing and how to get it.
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
