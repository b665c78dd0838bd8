//! What the two ends say each other of measurements.

use core::time::Duration;
use std::collections::VecDeque;

use super::{Bundle, schedule};
use crate::context::{Context, Event, Transmit};
use crate::limits::DATAGRAM_BYTES_MIN;
use crate::mesh::Measurement;
use crate::wire::{FEATURE_SURVEYS, Measure, Measured, NodeId, SurveyRecord, Switches};
use crate::{LinkId, Time};

/// Records that wait for the peer at most. Only a peer that asks again and again causes more: they are dropped, and counted.
const OWED_MAX: usize = 8;

/// A node sends trains for others so long after each other at least, whoever asks: each fills its link for 2 ms at 1 Gb/s.
const TRAIN_PAUSE: Duration = Duration::from_millis(50);

/// What there is of surveys with one peer.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// What the peer was asked to measure last, and whether it has answered.
    asked: Option<(u32, bool)>,
    /// To be said to it.
    owed: VecDeque<SurveyRecord>,
}

impl Survey {
    /// The record is to be said to the peer. Returns whether there is room for it.
    fn owe(&mut self, record: SurveyRecord) -> bool {
        let has_room = self.owed.len() < OWED_MAX;
        if has_room {
            self.owed.push_back(record);
        }
        has_room
    }
}

impl Bundle {
    /// Asks the peer to measure its path to a node. Returns whether it can.
    pub fn ask_to_measure(&mut self, token: u32, to: NodeId, how: Measure) -> bool {
        if !self.connected() || self.features() & FEATURE_SURVEYS == 0 {
            return false;
        }
        self.survey_mut().asked = Some((token, false));
        self.survey_mut()
            .owe(SurveyRecord::Measure { token, to, how })
    }

    /// Tells the peer what came of what it asked for. Returns whether there was room for it.
    pub fn tell_measured(&mut self, token: u32, outcome: Measured) -> bool {
        self.survey_mut()
            .owe(SurveyRecord::Measured { token, outcome })
    }

    /// Tells the peer on which switches it is. Returns whether it can.
    pub fn tell_switches(&mut self, switches: Switches) -> bool {
        self.connected()
            && self.features() & FEATURE_SURVEYS != 0
            && self.survey_mut().owe(SurveyRecord::Switches(switches))
    }

    fn survey_mut(&mut self) -> &mut Survey {
        self.relays_mut().survey.get_or_insert_default()
    }

    /// Whether something is on its way to the peer on a link.
    pub fn is_loaded(&self, link: LinkId) -> bool {
        let path = self.paths.get(link);
        path.is_some_and(|p| p.path.flight().in_flight_bytes() > 0)
    }

    /// A record of surveys came.
    pub(crate) fn on_survey_record(
        &mut self,
        now: Time,
        code: u8,
        data: &[u8],
        context: &mut Context,
    ) {
        let Ok(record) = SurveyRecord::read(code, data) else {
            context.stats.bad_record += 1;
            return;
        };
        let is_taken = match record {
            SurveyRecord::Measure { token, to, how } => {
                let to = context.mesh.peer(to);
                match (to, &context.measuring) {
                    (None, _) => self.tell_measured(token, Measured::Unreached),
                    (_, Some(_)) => self.tell_measured(token, Measured::Busy),
                    _ if how.is_train() && now < context.train_at => {
                        self.tell_measured(token, Measured::Busy)
                    }
                    (Some(to), None) => {
                        if how.is_train() {
                            context.train_at = now + TRAIN_PAUSE;
                        }
                        let asker = Some(self.peer);
                        let new = Measurement::new(now, asker, token, to, how, false);
                        context.measuring = Some(Box::new(new));
                        true
                    }
                }
            }
            SurveyRecord::Measured { token, outcome } => {
                let survey = self.relays.as_mut().and_then(|r| r.survey.as_mut());
                let asked = survey.and_then(|survey| survey.asked.as_mut());
                let is_first = |asked: &&mut (u32, bool)| **asked == (token, false);
                let was_asked = asked.is_some();
                if let Some((_, is_answered)) = asked.filter(is_first) {
                    *is_answered = true;
                    context.event(Event::Measured {
                        token,
                        outcome,
                        behind: None,
                    });
                }
                // The answer to a question before the last one may come late.
                was_asked
            }
            SurveyRecord::Switches(switches) => {
                context.mesh.set_switches(now, switches);
                true
            }
        };
        context.stats.violation += u64::from(!is_taken);
    }

    /// The next record that is owed to the peer.
    pub(super) fn transmit_survey(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        let owed = &self.relays.as_ref()?.survey.as_ref()?.owed;
        if owed.is_empty() {
            return None;
        }
        let id = schedule::fastest(self.open_paths(context.blocked), None)?;
        let mut w = self.begin(id, DATAGRAM_BYTES_MIN, buffer)?;
        let survey = self.relays.as_mut()?.survey.as_mut()?;
        survey.owed.pop_front()?.write(&mut w);
        let written = w.len();
        self.contents.clear();
        self.send_alone(now, id, written, false, buffer, context)
    }
}
