//! Walks a Kubernetes list in JSON while it comes in: what stands before the items is read at once,
//! each item when it is whole.

use memchr::{memchr2, memmem};
use serde::Deserialize;

use super::frames::LONGEST_FRAME;
use super::pages::Page;
use super::stored_bytes::Restore;
use crate::verify::{Check, Wrong, not_a_list};

/// What stands between a list's metadata and its first item.
const ITEMS: &[u8] = b",\"items\":[";
/// What stands behind the last item: the end of the items and of the list, and the line that a
/// server ends.
const TAIL: &[u8] = b"]}\n";
/// A head beyond this is none.
const LONGEST_HEAD: usize = 64 << 10;

/// Where in the body the validator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Head,
    /// Before the first item, or the end of a list without any.
    First,
    Item,
    /// Behind an item: a comma, or the end of them.
    Behind,
    /// Behind a comma: only an item may follow.
    Comma,
    /// Behind the last item: what is left of [`TAIL`].
    Tail(&'static [u8]),
}

/// Validates one page; the order of keys is carried from page to page by
/// [`JsonValidator::next_page`].
#[derive(Debug)]
pub(super) struct JsonValidator {
    at: At,
    /// The head, or the part of an item that came in earlier frames.
    kept: Vec<u8>,
    scan: Scan,
    page: Page,
    restore: Restore,
}

/// Finds the end of one JSON object in bytes that come in parts.
#[derive(Debug, Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

/// All that a head may hold.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Head {
    kind: String,
    api_version: String,
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HeadMeta {
    /// Deprecated, and empty since Kubernetes 1.20.
    #[serde(default)]
    self_link: String,
    resource_version: String,
    #[serde(default)]
    r#continue: String,
    remaining_item_count: Option<u64>,
    shard_info: Option<ShardInfo>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardInfo {
    selector: String,
}

impl JsonValidator {
    /// Returns a validator of lists whose items are turned back by `restore`.
    pub(super) fn new(restore: Restore) -> Self {
        Self {
            at: At::Head,
            kept: Vec::new(),
            scan: Scan::default(),
            page: Page::default(),
            restore,
        }
    }

    /// Items of the page so far; without a check no more than one is counted.
    pub(super) fn items(&self) -> u64 {
        self.page.items
    }

    /// Takes the next bytes of the body. Without a check nothing after the head is parsed but
    /// whether there is an item.
    pub(super) fn feed(
        &mut self,
        frame: &[u8],
        mut check: Option<&mut Check>,
    ) -> Result<(), Wrong> {
        self.page.bytes += frame.len() as u64;
        let mut rest = frame;
        while !rest.is_empty() {
            let taken = match self.at {
                At::Head => self.head(rest)?,
                At::First | At::Behind | At::Comma => self.between(rest)?,
                At::Item => match check.as_deref_mut() {
                    Some(check) => self.item(rest, check)?,
                    None => {
                        self.page.items = 1;
                        rest.len()
                    }
                },
                At::Tail(left) => self.tail(rest, left)?,
            };
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Ends a page and makes ready for the next; whether it ended where it should is known only
    /// where it was checked.
    pub(super) fn next_page(&mut self, was_checked: bool) -> Result<Page, Wrong> {
        // The line's end may be missing: a list without it is whole.
        let is_whole = matches!(self.at, At::Tail([] | [b'\n']));
        if self.at == At::Head || (was_checked && !is_whole) {
            return Err(not_a_list("the body is cut short"));
        }
        self.at = At::Head;
        self.kept.clear();
        self.scan = Scan::default();
        Ok(std::mem::take(&mut self.page))
    }

    fn head(&mut self, bytes: &[u8]) -> Result<usize, Wrong> {
        let before = self.kept.len();
        self.kept
            .extend_from_slice(&bytes[..bytes.len().min(LONGEST_HEAD)]);
        let Some(end) = memmem::find(&self.kept, ITEMS) else {
            if self.kept.len() > LONGEST_HEAD {
                return Err(not_a_list("no items within its first 64 KiB"));
            }
            return Ok(self.kept.len() - before);
        };
        let mut head = self.kept[..end].to_vec();
        head.push(b'}');
        let head: Head =
            serde_json::from_slice(&head).map_err(|e| not_a_list(&format!("its head: {e}")))?;
        let kind = format!("{}List", self.restore.kind());
        if head.kind != kind || head.api_version != "v1" {
            return Err(not_a_list(&format!(
                "its kind is {} of {}, and {kind} of v1 was asked for",
                head.kind, head.api_version
            )));
        }
        if !head.metadata.self_link.is_empty() {
            return Err(not_a_list("it has a selfLink"));
        }
        self.page.revision = head
            .metadata
            .resource_version
            .parse()
            .map_err(|_| not_a_list("its resourceVersion is not a number"))?;
        self.page.continue_token = head.metadata.r#continue;
        self.page.remaining = head.metadata.remaining_item_count;
        self.page.shard = head.metadata.shard_info.map(|info| info.selector);
        self.kept.clear();
        self.at = At::First;
        Ok(end + ITEMS.len() - before)
    }

    fn between(&mut self, bytes: &[u8]) -> Result<usize, Wrong> {
        self.at = match (self.at, bytes[0]) {
            (At::Behind, b',') => At::Comma,
            (At::First | At::Comma, b'{') => {
                self.at = At::Item;
                return Ok(0);
            }
            (At::First | At::Behind, b']') => At::Tail(&TAIL[1..]),
            (_, other) => {
                let other = other.escape_ascii();
                let item = self.page.items;
                return Err(not_a_list(&format!("`{other}` behind {item} items")));
            }
        };
        Ok(1)
    }

    fn tail(&mut self, bytes: &[u8], left: &'static [u8]) -> Result<usize, Wrong> {
        let len = bytes.len().min(left.len());
        if len == 0 || bytes[..len] != left[..len] {
            return Err(not_a_list("something stands behind its end"));
        }
        self.at = At::Tail(&left[len..]);
        Ok(len)
    }

    fn item(&mut self, bytes: &[u8], check: &mut Check) -> Result<usize, Wrong> {
        if self.scan.is_at_start()
            && let Some(end) = self.restore.json_again(bytes, check)?
        {
            self.page.items += 1;
            self.at = At::Behind;
            return Ok(end);
        }
        let Some(end) = self.scan.end(bytes) else {
            self.kept.extend_from_slice(bytes);
            if self.kept.len() > LONGEST_FRAME {
                return Err(not_a_list("an item without end"));
            }
            return Ok(bytes.len());
        };
        self.page.items += 1;
        self.at = At::Behind;
        if self.kept.is_empty() {
            self.restore.json(&bytes[..end], "", check)?;
        } else {
            self.kept.extend_from_slice(&bytes[..end]);
            self.restore.json(&self.kept, "", check)?;
            self.kept.clear();
        }
        Ok(end)
    }
}

impl Scan {
    /// Returns whether no byte of the object was parsed.
    fn is_at_start(&self) -> bool {
        self.depth == 0
    }

    /// Position behind the object's last brace; `None` when it is not in these bytes.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
                continue;
            }
            if self.in_string {
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                match bytes[at] {
                    b'"' => self.in_string = false,
                    _ => self.is_escaped = true,
                }
                at += 1;
                continue;
            }
            match bytes[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use kube_api::to_json;
    use workloads::{DataSet, DataSetSpec, Fingerprint, Kind};

    use super::super::memo::Memo;
    use super::*;
    use crate::verify::Listed;

    const ROOT: &str = "/registry/";

    fn spec() -> DataSetSpec {
        DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: 3.try_into().expect("some"),
            object_size: None,
            namespaces: 2.try_into().ok(),
            nodes: 2.try_into().ok(),
            seed: 1,
        }
    }

    fn data() -> DataSet {
        DataSet::new(&spec())
    }

    /// Items as a server writes them, each of revision 55.
    fn items(data: &DataSet) -> Vec<Vec<u8>> {
        let item = |i| {
            let stored = data.value(i);
            let object = kube_api::envelope::open(&stored).expect("sealed");
            let item = kube_api::metadata::list_item(object, "55").expect("an object");
            let mut json = Vec::new();
            let object = kube_api::metadata::item_object(&item);
            to_json(&kube_api::schema::POD, object, "", &mut json).expect("a pod");
            json
        };
        (0..data.len()).map(item).collect()
    }

    fn list(items: &[Vec<u8>]) -> Vec<u8> {
        let mut body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"77","continue":"token","remainingItemCount":9},"items":["#.to_vec();
        body.extend(items.join(&b','));
        body.extend(b"]}\n");
        body
    }

    fn validated(body: &[u8], cut: usize, memo: Memo) -> Result<(Page, Fingerprint, u64), Wrong> {
        let mut validator = JsonValidator::new(Restore::new(ROOT, "pods", memo));
        let mut check = Check::new(ROOT);
        validator.feed(&body[..cut], Some(&mut check))?;
        validator.feed(&body[cut..], Some(&mut check))?;
        let page = validator.next_page(true)?;
        let listed = Listed {
            revision: page.revision,
            ..Listed::default()
        };
        let found = check.finish(&listed, None)?;
        Ok((page, found.fingerprint, found.revisions))
    }

    #[test]
    fn items_are_turned_back_into_what_was_stored_wherever_frames_are_cut() {
        let data = data();
        let expected = data.fingerprint(0..data.len());
        let body = list(&items(&data));
        let memo = Memo::default();
        for cut in (0..=body.len()).step_by(97).chain(0..200) {
            let (page, fingerprint, revisions) =
                validated(&body, cut, memo.clone()).expect("a valid list");
            assert_eq!(fingerprint, expected, "cut at {cut}");
            assert_eq!(revisions, expected.sum.wrapping_mul(55));
            assert_eq!((page.revision, page.items), (77, 3));
            assert_eq!(
                (page.continue_token.as_str(), page.remaining),
                ("token", Some(9))
            );
        }
    }

    #[test]
    fn a_remembered_item_is_no_excuse_for_another() {
        let data = data();
        let good = items(&data);
        let memo = Memo::default();
        let (.., fingerprint, revisions) =
            validated(&list(&good), 0, memo.clone()).expect("a valid list");

        let mut newer = good.clone();
        let text = String::from_utf8(newer[1].clone()).expect("JSON");
        newer[1] = text
            .replace("\"resourceVersion\":\"55\"", "\"resourceVersion\":\"56\"")
            .into_bytes();
        assert_ne!(newer, good);
        let (_, same, others) = validated(&list(&newer), 0, memo.clone()).expect("a list");
        assert_eq!(same, fingerprint);
        assert_ne!(others, revisions, "another resourceVersion shows");

        let mut altered = good.clone();
        let text = String::from_utf8(altered[2].clone()).expect("JSON");
        altered[2] = text.replace("Running", "Pending").into_bytes();
        let (_, other, _) = validated(&list(&altered), 0, memo.clone()).expect("a list");
        assert_ne!(other, fingerprint, "another value shows");

        // Longer and shorter than what was there, in the middle and at the end.
        for (place, phase) in [
            (1, "Terminating"),
            (1, "Run"),
            (2, "Terminating"),
            (2, "Run"),
        ] {
            let mut resized = good.clone();
            let text = String::from_utf8(resized[place].clone()).expect("JSON");
            resized[place] = text.replace("Running", phase).into_bytes();
            let (page, other, _) = validated(&list(&resized), 0, memo.clone()).expect("a list");
            assert_eq!(page.items, 3);
            assert_ne!(other, fingerprint, "{phase} at {place}");
        }

        let mut swapped = good.clone();
        swapped.swap(0, 2);
        let wrong = validated(&list(&swapped), 0, memo.clone());
        assert!(matches!(wrong, Err(Wrong::Order { .. })), "{wrong:?}");
        let repeated = [&good[..1], &good[..]].concat();
        let wrong = validated(&list(&repeated), 0, memo.clone());
        assert!(matches!(wrong, Err(Wrong::Order { .. })), "{wrong:?}");
        let (_, fewer, _) = validated(&list(&good[..2]), 0, memo).expect("a list");
        assert_ne!(fewer, fingerprint, "a missing item shows");
    }

    #[test]
    fn an_item_of_an_earlier_list_is_known_by_its_bytes_alone() {
        let items = items(&data());
        let memo = Memo::default();
        validated(&list(&items), 0, memo.clone()).expect("a valid list");
        let mut restore = Restore::new(ROOT, "pods", memo);
        let mut check = Check::new(ROOT);
        // Behind the first nothing is JSON: its end must not be looked for there.
        let bytes = [&items[0][..], b"}]not JSON"].concat();
        let taken = restore.json_again(&bytes, &mut check);
        assert_eq!(taken, Ok(Some(items[0].len())));
        let in_part = restore.json_again(&items[1][..items[1].len() - 1], &mut check);
        assert_eq!(in_part, Ok(None), "the second, without its last byte");
        let other = restore.json_again(&items[2], &mut check);
        assert_eq!(other, Ok(None), "the third, in the second's place");
    }

    #[test]
    fn a_body_that_is_cut_is_wrong() {
        let body = list(&items(&data()));
        let memo = Memo::default();
        for len in 0..body.len() - 1 {
            assert!(validated(&body[..len], 0, memo.clone()).is_err(), "{len}");
        }
        let without_line_end = validated(&body[..body.len() - 1], 0, memo);
        assert!(without_line_end.is_ok(), "{without_line_end:?}");
        assert!(validated(b"k8s\0", 0, Memo::default()).is_err());
    }

    #[test]
    fn nothing_but_the_list_may_be_there() {
        let items = items(&data());
        let body = String::from_utf8(list(&items)).expect("JSON");
        let known = Memo::default();
        validated(body.as_bytes(), 0, known.clone()).expect("a valid list");
        let with = |from: &str, to: &str| {
            let changed = body.replacen(from, to, 1);
            assert_ne!(changed, body, "{from}");
            changed
        };
        let first = String::from_utf8(items[0].clone()).expect("JSON");
        let second = String::from_utf8(items[1].clone()).expect("JSON");
        for (wrong, says) in [
            (with("PodList", "SecretList"), "its kind is SecretList"),
            (with("\"v1\"", "\"v2\""), "its kind is PodList of v2"),
            (with("\"v1\",", "\"v1\",\"more\":1,"), "unknown field"),
            (
                with(
                    "{\"resourceVersion\":\"77\"",
                    "{\"resourceVersion\":\"77\",\"a\":1",
                ),
                "unknown field",
            ),
            (with("\"77\"", "\"x\""), "resourceVersion"),
            (with(&format!("{first},"), &first), "`{` behind 1 items"),
            (
                with(&format!("{first},"), &format!("{first},,")),
                "`,` behind 1 items",
            ),
            (with(&first, &format!("{first}x")), "`x` behind 1 items"),
            (with(&second, &format!("{second} ")), "` ` behind 2 items"),
            (with("]}\n", ",]}\n"), "`]` behind 3 items"),
            (with("]}\n", "]}}\n"), "behind its end"),
            (with("]}\n", "],\"a\":1}\n"), "behind its end"),
            (with("]}\n", "]}\n{}"), "behind its end"),
            // A field that is there twice, and another spelling of the same.
            (
                with("{\"metadata\":{", "{\"spec\":{},\"metadata\":{"),
                "its text is not that",
            ),
            (with("T", "t"), ""),
            (
                with("{\"metadata\"", "{\"kind\":\"Pod\",\"metadata\""),
                "its text",
            ),
        ] {
            for memo in [Memo::default(), known.clone()] {
                let error = validated(wrong.as_bytes(), 0, memo).expect_err(&wrong[..200]);
                assert!(error.to_string().contains(says), "{says}: {error}");
            }
        }
    }

    /// Bytes, all of the head and every seventh of an item, by another letter case and by one bit:
    /// another text is another object, or none.
    #[test]
    fn a_flipped_byte_never_passes_as_the_same_list() {
        let body = list(&items(&data())[..1]);
        let memo = Memo::default();
        let whole = validated(&body, 0, memo.clone()).expect("a valid list");
        for at in (0..200).chain((200..body.len()).step_by(7)) {
            for bit in [1, 0x20] {
                let mut flipped = body.clone();
                flipped[at] ^= bit;
                let found = validated(&flipped, 0, Memo::default()).ok();
                assert_ne!(found, Some(whole.clone()), "byte {at} by {bit}");
            }
        }
    }

    /// Lists of many items with one inserted, one taken out and one changed.
    #[test]
    fn one_other_item_is_parsed_once_and_the_rest_not_again() {
        let data = DataSet::new(&DataSetSpec {
            objects: 40.try_into().expect("some"),
            ..spec()
        });
        let all = items(&data);
        let memo = Memo::default();
        let parsed_of = |items: &[Vec<u8>]| {
            let before = memo.parsed();
            let (page, ..) = validated(&list(items), 0, memo.clone()).expect("a valid list");
            assert_eq!(page.items, items.len() as u64);
            memo.parsed() - before
        };
        let mut fewer = all.clone();
        let late = fewer.remove(20);
        assert_eq!((parsed_of(&fewer), parsed_of(&fewer)), (39, 0));
        assert_eq!((parsed_of(&all), parsed_of(&all)), (1, 0), "inserted");
        assert_eq!((parsed_of(&fewer), parsed_of(&fewer)), (0, 0), "deleted");
        let mut moved = fewer.clone();
        moved.insert(20, late);
        assert_eq!(parsed_of(&moved), 0, "and there again");
        let newer = |item: &[u8]| {
            let text = String::from_utf8(item.to_vec()).expect("JSON");
            text.replace("\"resourceVersion\":\"55\"", "\"resourceVersion\":\"56\"")
                .into_bytes()
        };
        let mut changed = all.clone();
        changed[0] = newer(&all[0]);
        changed[7] = newer(&all[7]);
        assert_eq!((parsed_of(&changed), parsed_of(&changed)), (2, 0));
        // Half of them, as another namespace has them.
        assert_eq!(parsed_of(&all[20..]), 0);
    }

    #[test]
    fn braces_and_quotes_in_strings_are_no_structure() {
        let text = br#"{"a":"}{\"]","b":[{"c":"\\"}]}, "#;
        for cut in 0..text.len() - 2 {
            let mut scan = Scan::default();
            let end = scan.end(&text[..cut]);
            assert_eq!(end, None, "cut at {cut}");
            assert_eq!(scan.end(&text[cut..]), Some(text.len() - 2 - cut));
        }
    }
}
