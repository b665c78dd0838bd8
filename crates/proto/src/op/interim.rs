//! Streams and messages are being built: until they are here, every operation on them says no.

use super::{Message, OpError, Ops, Policy, Read, Violation};
use crate::wire::StreamSegment;
use crate::{StreamId, Time};

#[allow(missing_docs, clippy::missing_errors_doc)]
impl Ops {
    pub fn open_stream(&mut self, _service: u32, _policy: Policy) -> Result<StreamId, OpError> {
        Err(OpError::TooManyStreams)
    }
    pub fn write_stream(&mut self, _id: StreamId, _data: &[u8]) -> Result<usize, OpError> {
        Err(OpError::UnknownStream)
    }
    pub fn finish_stream(&mut self, _id: StreamId) -> Result<(), OpError> {
        Err(OpError::UnknownStream)
    }
    pub fn reset_stream(&mut self, _id: StreamId, _code: u32) -> Result<(), OpError> {
        Err(OpError::UnknownStream)
    }
    pub fn stop_stream(&mut self, _id: StreamId, _code: u32) -> Result<(), OpError> {
        Err(OpError::UnknownStream)
    }
    pub fn read_stream(&mut self, _id: StreamId, _into: &mut [u8]) -> Result<Read, OpError> {
        Err(OpError::UnknownStream)
    }
    pub fn send_message(
        &mut self,
        _flow: u32,
        _tag: Option<u64>,
        _data: &[u8],
        _policy: Policy,
    ) -> Result<(), OpError> {
        Err(OpError::Full)
    }
    pub fn receive_message(&mut self) -> Option<Message> {
        None
    }
    pub fn set_window_share(&mut self, _bytes: u64) {}
    pub fn on_stream(&mut self, _now: Time, _seg: &StreamSegment<'_>) -> Result<(), Violation> {
        Err(Violation::UnknownStream)
    }
    pub fn on_stream_reset(
        &mut self,
        _now: Time,
        _id: u32,
        _code: u32,
        _final_offset: u64,
    ) -> Result<(), Violation> {
        Err(Violation::UnknownStream)
    }
    pub fn on_stream_stop(&mut self, _now: Time, _id: u32, _code: u32) -> Result<(), Violation> {
        Err(Violation::UnknownStream)
    }
    pub fn on_stream_window(&mut self, _id: u32, _limit: u64) -> Result<(), Violation> {
        Err(Violation::UnknownStream)
    }
    pub fn on_bundle_window(&mut self, _limit: u64) {}
}
