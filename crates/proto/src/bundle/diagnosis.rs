//! What an operator's tools have a bundle do: carry its content over one link alone, probe all paths at once.

use super::{Bundle, Path};
use crate::LinkId;

impl Bundle {
    /// Has all content go over one link from now on, as long as it works; `None`: over all, as usual.
    pub const fn confine(&mut self, link: Option<LinkId>) {
        self.confined = link;
    }

    /// The link that all content goes over, if it is confined to one that works.
    pub(super) fn only_link(&self) -> Option<LinkId> {
        let link = self.confined?;
        let works = self.paths.get(link).is_some_and(|p| p.path.carries());
        works.then_some(link)
    }

    /// Probes all paths in use now. [`PathStats::probes_answered`](crate::PathStats::probes_answered) tells of the answers.
    pub fn probe(&mut self) {
        let closed = self.closed(0);
        let used = self
            .paths
            .iter_mut()
            .filter(|(id, _)| closed & id.bit() == 0);
        used.for_each(|(_, p)| Path::request_probe(&mut p.path));
    }
}
