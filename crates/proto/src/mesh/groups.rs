//! Groups of nodes, by the switches that a survey has found.
//!
//! A switch is a group. Small ones are merged and large ones split, so that no node has many more bundles to keep than
//! others.
//!
//! The node that made a survey tells each node on which switches it is, and each node says so together with whom it
//! reaches. So no further record is passed on, a node that restarted hears of its own switches, and nodes with the same
//! knowledge compute the same groups. While their knowledge differs, a node takes a bundle that the other end wants as
//! far as it has room.

use std::collections::BTreeMap;

use crate::limits::LINKS_MAX;
use crate::wire::Switches;

/// Instead of the number of a switch.
const UNKNOWN: u32 = u32::MAX;

/// The group of each node, in the order of names: groups are numbered from 0 on. `best` is how large one is best.
pub(super) fn groups(switches: &[Option<&Switches>], best: usize) -> Vec<u16> {
    let least = best / 2;
    let of = numbers(switches);
    let mut order: Vec<usize> = (0..of.len()).collect();
    order.sort_by_key(|node| of[*node]);
    let mut groups = vec![0; of.len()];
    let (mut count, mut begin) = (0, 0);
    for (at, node) in order.iter().enumerate() {
        let next = order.get(at + 1).map(|next| of[*next]);
        let size = at + 1 - begin;
        // The rest at the end joins the group before.
        let ends = next != Some(of[*node]) && (size >= least || next.is_none());
        if !ends {
            continue;
        }
        // Ways within a switch cross no trunk, which is worth a few bundles. Neighbouring names are worth nothing.
        let most = match of[*node] {
            UNKNOWN => best,
            _ => 3 * best,
        };
        let parts = match size {
            _ if size < least && count > 0 => {
                count -= 1;
                1
            }
            _ if size > most => size.div_ceil(best),
            _ => 1,
        };
        for (place, node) in order[begin..=at].iter().enumerate() {
            groups[*node] = (count + place * parts / size) as u16;
        }
        (count, begin) = (count + parts, at + 1);
    }
    groups
}

/// The number of each node's switch, on the first network where any is known; nodes without a known switch come last.
fn numbers(switches: &[Option<&Switches>]) -> Vec<u32> {
    let survey = usual_survey(switches);
    let of = |link: usize| {
        let known = switches.iter().map(move |switches| {
            let switches = switches.filter(|switches| Some(switches.survey) == survey);
            switches.and_then(|switches| switches.of[link])
        });
        known.map(|number| number.map_or(UNKNOWN, u32::from))
    };
    let mut links = 0..LINKS_MAX;
    let link = links.find(|link| of(*link).any(|number| number != UNKNOWN));
    of(link.unwrap_or(0)).collect()
}

/// The survey that most nodes speak of: others are past, or have only begun to be known.
fn usual_survey(switches: &[Option<&Switches>]) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for switches in switches.iter().flatten() {
        *counts.entry(switches.survey).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(survey, count)| (*count, *survey));
    most.map(|(survey, _)| survey)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(survey: u64, switch: u16) -> Option<Switches> {
        let mut of = [None; LINKS_MAX];
        of[1] = Some(switch);
        Some(Switches { survey, of })
    }

    fn groups_of(nodes: &[Option<Switches>], best: usize) -> Vec<u16> {
        let switches: Vec<_> = nodes.iter().map(Option::as_ref).collect();
        groups(&switches, best)
    }

    #[test]
    fn a_switch_is_a_group_whatever_its_nodes_are_called() {
        let nodes: Vec<_> = (0..32).map(|node| on(1, node % 4)).collect();
        let expected: Vec<u16> = (0..32).map(|node| node % 4).collect();
        assert_eq!(groups_of(&nodes, 8), expected);
    }

    #[test]
    fn small_switches_are_put_together_and_large_ones_cut() {
        let sizes = [(1, 0), (1, 1), (6, 2), (32, 3), (1, 4)];
        let nodes = sizes
            .iter()
            .flat_map(|(size, switch)| vec![on(1, *switch); *size]);
        let nodes: Vec<_> = nodes.collect();
        let expected = [0, 1, 2, 3, 4].map(|group| vec![group; 8]);
        // The last node joins the last part of the previous switch.
        assert_eq!(groups_of(&nodes, 8), [expected.concat(), vec![4]].concat());
    }

    #[test]
    fn who_is_not_on_a_switch_of_the_usual_survey_comes_last() {
        let mut nodes = vec![on(1, 0); 4];
        nodes.extend([on(2, 0), None, on(9, 0), None]);
        nodes.extend(vec![on(1, 7); 4]);
        let expected = [vec![0; 4], vec![2; 4], vec![1; 4]];
        assert_eq!(groups_of(&nodes, 4), expected.concat());
        assert_eq!(groups_of(&[None; 8], 4), [0, 0, 0, 0, 1, 1, 1, 1]);
    }
}
