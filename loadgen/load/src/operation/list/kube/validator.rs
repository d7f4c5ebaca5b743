//! The validators of a response: of a list in either encoding, and of a watch, each with the
//! decoder of its objects.

use workloads::scenario::Media;

use super::client::Kube;
use super::events::EventValidator;
use super::item_cache::ItemCache;
use super::json::JsonValidator;
use super::list_parameters::ListParameters;
use super::pages::Page;
use super::protobuf::ProtobufValidator;
use super::stored_bytes::{ItemDecoder, ROOT};
use crate::verify::{Check, InvalidResponse};

/// Validates a list in either encoding while it streams in.
#[derive(Debug)]
pub(super) enum ListValidator {
    Protobuf(ProtobufValidator),
    Json(JsonValidator),
}

impl ListValidator {
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        check: Option<&mut Check>,
    ) -> Result<(), InvalidResponse> {
        match self {
            Self::Protobuf(validator) => validator.feed(bytes, check),
            Self::Json(validator) => validator.feed(bytes, check),
        }
    }

    pub(super) fn items(&self) -> u64 {
        match self {
            Self::Protobuf(validator) => validator.items(),
            Self::Json(validator) => validator.items(),
        }
    }

    pub(super) fn next_page(&mut self, was_checked: bool) -> Result<Page, InvalidResponse> {
        match self {
            Self::Protobuf(validator) => validator.next_page(),
            Self::Json(validator) => validator.next_page(was_checked),
        }
    }
}

impl Kube {
    pub(super) fn validator(&self) -> ListValidator {
        let item_cache = self.parameters.item_cache.clone();
        match self.parameters.media {
            Media::Protobuf => ListValidator::Protobuf(ProtobufValidator::new(self.decoder())),
            Media::Json => ListValidator::Json(JsonValidator::new(self.list_decoder(item_cache))),
        }
    }

    /// Returns the decoder of objects in protobuf, which keeps those of the case's shard.
    pub(in crate::operation) fn decoder(&self) -> ItemDecoder {
        let decoder = self.list_decoder(ItemCache::default());
        match &self.parameters.part {
            Some(part) => decoder.keeping(part.kept()).hashing(part.shard.key()),
            None => decoder,
        }
    }

    pub(super) fn events(&self) -> EventValidator {
        let ListParameters {
            media, item_cache, ..
        } = &self.parameters;
        EventValidator::new(*media, self.list_decoder(item_cache.clone()))
    }

    /// Returns a decoder of whole lists and initial states, without a shard.
    fn list_decoder(&self, item_cache: ItemCache) -> ItemDecoder {
        let decoder = ItemDecoder::new(ROOT, &self.resource, item_cache);
        let decoder = decoder.ignoring_made(self.parameters.ignores_made);
        decoder.only_namespaces(self.parameters.own_namespaces.as_deref())
    }
}
