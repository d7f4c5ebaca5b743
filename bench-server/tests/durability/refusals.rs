//! Messages and exit codes of a server that cannot guarantee durability.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::server::{Server, all, put, refused, runtime};

/// Stores some keys, one request at a time.
fn fill(server: &Server, keys: std::ops::Range<u32>) {
    runtime().block_on(async {
        let client = server.client().await;
        for key in keys {
            let request = put(&format!("key {key:03}"), &"v".repeat(100));
            client.kv().put(request).await.expect("a put");
        }
    });
}

fn first_segment(directory: &Path) -> PathBuf {
    directory.join("0000000000000001.log")
}

/// Returns the offset of a key in a file.
fn position(file: &Path, key: &str) -> u64 {
    let contents = fs::read(file).expect("a segment");
    let found = contents
        .windows(key.len())
        .position(|bytes| bytes == key.as_bytes());
    found.expect("it is in the log") as u64
}

fn overwrite(file: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new()
        .write(true)
        .open(file)
        .expect("a segment");
    file.write_all_at(bytes, at).expect("a disk");
}

#[test]
fn two_servers_cannot_share_a_directory() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let first = Server::start(directory.path(), &[]);
    let ended = refused(directory.path(), "", &[]);
    assert_eq!(ended.code, Some(2));
    let expected = format!(
        "error: {} is locked by another server: two servers cannot share a data directory\n",
        directory.path().display()
    );
    assert_eq!(ended.told, expected);
    fill(&first, 0..1);
}

#[test]
fn a_torn_end_is_cut_and_kept_aside() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(directory.path(), &[]);
    fill(&server, 0..10);
    server.kill();
    let segment = first_segment(directory.path());
    overwrite(&segment, position(&segment, "key 009"), b"?");
    let server = Server::start(directory.path(), &[]);
    let found = runtime().block_on(async { all(&server.client().await).await });
    assert_eq!(found.count, 9, "the last write is the torn one");
    let names = fs::read_dir(directory.path()).expect("a directory");
    let names = names.map(|entry| entry.expect("a file").file_name().into_string());
    let torn = names.flatten().filter(|name| name.contains(".log.torn-"));
    assert_eq!(torn.count(), 1);
}

#[test]
fn a_rotten_log_is_refused_with_file_and_offset() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(directory.path(), &[]);
    fill(&server, 0..10);
    server.kill();
    let segment = first_segment(directory.path());
    let before = fs::read(&segment).expect("a segment");
    let at = position(&segment, "key 004");
    overwrite(&segment, at, b"?");
    let ended = refused(directory.path(), "", &[]);
    assert_eq!(ended.code, Some(2));
    let file = segment.display();
    assert!(
        ended
            .told
            .starts_with(&format!("error: {file} is corrupt at offset ")),
        "{}",
        ended.told
    );
    assert_eq!(ended.told.lines().count(), 1, "{}", ended.told);
    let offset = ended
        .told
        .split("offset ")
        .nth(1)
        .and_then(|rest| rest.split(':').next());
    let offset: u64 = offset
        .and_then(|offset| offset.parse().ok())
        .expect("an offset");
    assert!(
        offset < at && at - offset < 64,
        "{offset} is not where {at} is"
    );
    overwrite(&segment, at, b"k");
    assert_eq!(
        fs::read(&segment).expect("a segment"),
        before,
        "nothing was changed"
    );
    let server = Server::start(directory.path(), &[]);
    let found = runtime().block_on(async { all(&server.client().await).await });
    assert_eq!(found.count, 10);
}

/// Uses a file size limit, since filling a disk needs privileges: the same call fails.
#[test]
fn a_server_without_room_ends_with_one_line() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    // 64 MiB, in blocks of 512 bytes: one segment, and nothing larger.
    let limits = "trap '' XFSZ; ulimit -f 131072;";
    let flags = ["--max-request-bytes=100000000"];
    let server = Server::start_limited(directory.path(), limits, &flags);
    fill(&server, 0..10);
    runtime().block_on(async {
        let client = server.client().await;
        let refused = client.kv().put(put("large", &"v".repeat(70_000_000))).await;
        refused.expect_err("it does not fit into a file");
    });
    let ended = server.ended();
    assert_eq!(ended.code, Some(1));
    let expected = format!(
        "error: the log failed: cannot create and reserve {}: File too large (os error 27); the server stops, since it \
         cannot go on without\n",
        directory.path().join("0000000000000002.log.tmp").display()
    );
    assert_eq!(ended.told, expected);
    let server = Server::start(directory.path(), &[]);
    let found = runtime().block_on(async { all(&server.client().await).await });
    assert_eq!(found.count, 10);
}

#[test]
fn a_directory_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("a disk");
    let ended = refused(&file, "", &[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.told.starts_with("error: cannot "), "{}", ended.told);
    assert_eq!(ended.told.lines().count(), 1, "{}", ended.told);
}
