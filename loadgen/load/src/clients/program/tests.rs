use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq, Deserialize)]
struct Number {
    n: u64,
}

async fn shell(script: &str) -> Result<ClientProgram, ProgramError> {
    ClientProgram::start("test", Path::new("/bin/sh"), &["-c".into(), script.into()]).await
}

/// Returns a program that is ready, reads one command, and then runs `script`.
async fn ready(script: &str) -> ClientProgram {
    let script = format!(r#"echo '{{"ready":"test 1"}}'; read command; {script}"#);
    shell(&script).await.expect("it is ready")
}

async fn number(program: &mut ClientProgram) -> Result<Number, ProgramError> {
    program.ask("list", TIMEOUT).await
}

async fn objects(
    program: &mut ClientProgram,
) -> Result<Vec<(Vec<u8>, Vec<u8>, i64)>, ProgramError> {
    let mut all = Vec::new();
    let visit = |key: &[u8], value: &[u8], revision| {
        all.push((key.to_owned(), value.to_owned(), revision));
        Ok(())
    };
    let announced = |number: &Number| number.n;
    let shown =
        program.ask_objects::<Number, Number, ProgramError>("check", TIMEOUT, announced, visit);
    shown.await.map(|_| all)
}

#[tokio::test]
async fn a_command_is_answered_with_a_line() {
    let mut program = ready(r#"echo "{\"n\":7}"; read command; echo "{\"error\":\"no $command\"}"; read command; echo '{"n":8}'"#).await;
    assert_eq!(program.about(), "test 1");
    assert_eq!(number(&mut program).await.expect("a line"), Number { n: 7 });
    let error = number(&mut program).await.expect_err("it failed");
    assert_eq!(error.to_string(), "test: no list");
    let again = number(&mut program).await;
    assert_eq!(again.expect("it goes on"), Number { n: 8 });
}

#[tokio::test]
async fn a_line_that_is_no_answer_is_shown_and_nothing_more_is_asked() {
    let mut program = ready("printf 'panic: \\001 oh\\n'; sleep 60").await;
    let error = number(&mut program).await.expect_err("no JSON");
    let text = error.to_string();
    assert_eq!(text, r"test prints an unexpected line: panic: \u{1} oh");
    let error = number(&mut program)
        .await
        .expect_err("who knows what comes");
    assert!(matches!(error, ProgramError::Busy(_)), "{error}");
}

#[tokio::test]
async fn an_early_end_is_told_with_the_last_lines() {
    let error = shell("echo connection refused >&2; exit 3").await;
    let text = error.expect_err("it never was ready").to_string();
    assert!(text.contains("exit status: 3"), "{text}");
    assert!(text.contains("connection refused"), "{text}");
    let mut program = ready("exit 4").await;
    let text = number(&mut program)
        .await
        .expect_err("it ended")
        .to_string();
    assert!(text.starts_with("test died (exit status: 4)"), "{text}");
    let missing = ClientProgram::start("test", Path::new("/missing/client"), &[]).await;
    let text = missing.expect_err("no such program").to_string();
    assert!(text.starts_with("cannot start /missing/client"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends() {
    let error = shell("exec sleep 60").await.expect_err("it says nothing");
    let text = "test did not respond within 30 s; its last lines: none";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn objects_come_between_two_lines() {
    let object = r"printf '\001\000\000\000\002\000\000\000\011\000\000\000\000\000\000\000kvv'";
    let mut program = ready(&format!(r#"echo '{{"n":1}}'; {object}; echo '{{"n":0}}'"#)).await;
    let all = objects(&mut program).await.expect("an object");
    assert_eq!(all, [(b"k".to_vec(), b"vv".to_vec(), 9)]);
    // One object less than was announced: the program ends instead.
    let mut program = ready(&format!(r#"echo '{{"n":2}}'; {object}"#)).await;
    let error = objects(&mut program)
        .await
        .expect_err("one object is missing");
    assert!(matches!(error, ProgramError::Died(_)), "{error}");
    let mut program = ready(r#"echo '{"n":1}'; echo '{"freed":true} and more'; sleep 60"#).await;
    let text = objects(&mut program)
        .await
        .expect_err("no object")
        .to_string();
    assert!(text.contains("an object of"), "{text}");
}
