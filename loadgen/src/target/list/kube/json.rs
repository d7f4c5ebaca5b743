//! Walks a Kubernetes list in JSON while it comes in: what stands before the items is read at once, each item when it is
//! whole.

use memchr::{memchr2, memmem};
use serde::Deserialize;

use super::frames::LONGEST_FRAME;
use super::not_a_list;
use super::pages::Page;
use super::restore::Restore;
use crate::verify::{Check, Wrong};

/// What stands between a list's metadata and its first item.
const ITEMS: &[u8] = b",\"items\":[";
/// A head beyond this is none.
const LONGEST_HEAD: usize = 64 << 10;

/// Where in the body the walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Head,
    /// Before an item, or the end of them.
    Between,
    Item,
    Tail,
}

/// The walk over one page; the order of keys is carried from page to page by [`JsonWalker::next_page`].
#[derive(Debug)]
pub(super) struct JsonWalker {
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

/// What of the head is looked at.
#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    resource_version: String,
    #[serde(default)]
    r#continue: String,
    remaining_item_count: Option<u64>,
    shard_info: Option<ShardInfo>,
}

#[derive(Deserialize)]
struct ShardInfo {
    selector: String,
}

impl JsonWalker {
    /// A walk over lists whose items are turned back by `restore`.
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

    /// Takes the next bytes of the body. Without a check nothing behind the head is looked at but whether there is an item.
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
                At::Between => self.between(rest)?,
                At::Item => match check.as_deref_mut() {
                    Some(check) => self.item(rest, check)?,
                    None => {
                        self.page.items = 1;
                        rest.len()
                    }
                },
                At::Tail => rest.len(),
            };
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Ends a page and makes ready for the next; whether it ended where it should is known only where it was checked.
    pub(super) fn next_page(&mut self, was_checked: bool) -> Result<Page, Wrong> {
        if self.at == At::Head || (was_checked && self.at != At::Tail) {
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
        self.page.revision = head
            .metadata
            .resource_version
            .parse()
            .map_err(|_| not_a_list("its resourceVersion is not a number"))?;
        self.page.continue_token = head.metadata.r#continue;
        self.page.remaining = head.metadata.remaining_item_count;
        self.page.shard = head.metadata.shard_info.map(|info| info.selector);
        self.kept.clear();
        self.at = At::Between;
        Ok(end + ITEMS.len() - before)
    }

    fn between(&mut self, bytes: &[u8]) -> Result<usize, Wrong> {
        match bytes[0] {
            b',' if self.page.items > 0 => return Ok(1),
            b'{' => {
                self.at = At::Item;
                return Ok(0);
            }
            b']' => self.at = At::Tail,
            _ => return Err(not_a_list("something else than an item among its items")),
        }
        Ok(1)
    }

    fn item(&mut self, bytes: &[u8], check: &mut Check) -> Result<usize, Wrong> {
        if self.scan.is_at_start()
            && let Some(end) = self.restore.json_again(bytes, check)?
        {
            self.page.items += 1;
            self.at = At::Between;
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
        self.at = At::Between;
        if self.kept.is_empty() {
            self.restore.json(&bytes[..end], check)?;
        } else {
            self.kept.extend_from_slice(&bytes[..end]);
            self.restore.json(&self.kept, check)?;
            self.kept.clear();
        }
        Ok(end)
    }
}

impl Scan {
    /// Whether no byte of the object was looked at.
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

    use super::super::restore::Memo;
    use super::*;
    use crate::target::list::Listed;

    const ROOT: &str = "/registry/";

    fn data() -> DataSet {
        DataSet::new(&DataSetSpec {
            name: "pods".to_owned(),
            kind: Kind::Pods,
            objects: 3.try_into().expect("some"),
            object_size: None,
            namespaces: 2.try_into().ok(),
            nodes: 2.try_into().ok(),
            seed: 1,
        })
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

    fn walk(body: &[u8], cut: usize, memo: Memo) -> Result<(Page, Fingerprint, u64), Wrong> {
        let mut walker = JsonWalker::new(Restore::new(ROOT, "pods", memo));
        let mut check = Check::new(ROOT);
        walker.feed(&body[..cut], Some(&mut check))?;
        walker.feed(&body[cut..], Some(&mut check))?;
        let page = walker.next_page(true)?;
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
                walk(&body, cut, memo.clone()).expect("a valid list");
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
            walk(&list(&good), 0, memo.clone()).expect("a valid list");

        let mut newer = good.clone();
        let text = String::from_utf8(newer[1].clone()).expect("JSON");
        newer[1] = text
            .replace("\"resourceVersion\":\"55\"", "\"resourceVersion\":\"56\"")
            .into_bytes();
        assert_ne!(newer, good);
        let (_, same, others) = walk(&list(&newer), 0, memo.clone()).expect("a list");
        assert_eq!(same, fingerprint);
        assert_ne!(others, revisions, "another resourceVersion shows");

        let mut altered = good.clone();
        let text = String::from_utf8(altered[2].clone()).expect("JSON");
        altered[2] = text.replace("Running", "Pending").into_bytes();
        let (_, other, _) = walk(&list(&altered), 0, memo.clone()).expect("a list");
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
            let (page, other, _) = walk(&list(&resized), 0, memo.clone()).expect("a list");
            assert_eq!(page.items, 3);
            assert_ne!(other, fingerprint, "{phase} at {place}");
        }

        let mut swapped = good.clone();
        swapped.swap(0, 2);
        let wrong = walk(&list(&swapped), 0, memo.clone());
        assert!(matches!(wrong, Err(Wrong::Order { .. })), "{wrong:?}");
        let repeated = [&good[..1], &good[..]].concat();
        let wrong = walk(&list(&repeated), 0, memo.clone());
        assert!(matches!(wrong, Err(Wrong::Order { .. })), "{wrong:?}");
        let (_, fewer, _) = walk(&list(&good[..2]), 0, memo).expect("a list");
        assert_ne!(fewer, fingerprint, "a missing item shows");
    }

    #[test]
    fn an_item_of_an_earlier_list_is_known_by_its_bytes_alone() {
        let items = items(&data());
        let memo = Memo::default();
        walk(&list(&items), 0, memo.clone()).expect("a valid list");
        let mut restore = Restore::new(ROOT, "pods", memo);
        let mut check = Check::new(ROOT);
        // Behind the first nothing is JSON: nobody may look for its end there.
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
        for len in (0..body.len() - 2).step_by(61) {
            assert!(walk(&body[..len], 0, Memo::default()).is_err(), "{len}");
        }
        assert!(walk(b"k8s\0", 0, Memo::default()).is_err());
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
