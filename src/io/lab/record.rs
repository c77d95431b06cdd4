//! What a client saw: each question, and who answered it when. Decides what counts as lost and
//! how long an address was silent.

use std::ops::Range;
use std::time::Duration;

use crate::engine::time::Instant;

/// An answer that takes longer is lost.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Every question of a client and its answer.
#[derive(Clone, Debug, Default)]
pub struct Record {
    questions: Vec<Question>,
    nodes: Vec<String>,
}

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// When it was sent.
    pub at: Instant,
    /// Its first answer.
    pub answer: Option<Answer>,
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it arrived.
    pub at: Instant,
    /// Whose it is.
    pub node: NodeNumber,
}

/// A node of a record, whose name [`Record::name`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeNumber(usize);

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This node answered in time.
    Answered(NodeNumber),
    /// Nobody did.
    Lost,
    /// There is still time.
    Open,
}

/// A stretch of time in which one node answered and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reign {
    /// Who.
    pub node: NodeNumber,
    /// Its first answer of this stretch.
    pub first: Instant,
    /// Its last one.
    pub last: Instant,
}

impl Record {
    /// Writes down a question and returns its number.
    pub fn asked(&mut self, at: Instant) -> u32 {
        let number = u32::try_from(self.questions.len()).unwrap_or(u32::MAX);
        self.questions.push(Question { at, answer: None });
        number
    }

    /// Writes down an answer. Second answers to one question, and those to questions never asked,
    /// change nothing.
    pub fn answered(&mut self, number: u32, answer: Answer) {
        let question =
            usize::try_from(number).ok().and_then(|number| self.questions.get_mut(number));
        if let Some(question) = question {
            question.answer.get_or_insert(answer);
        }
    }

    /// The number of the node of this name, new or known.
    pub fn node(&mut self, name: &str) -> NodeNumber {
        NodeNumber(self.nodes.iter().position(|known| known == name).unwrap_or_else(|| {
            self.nodes.push(name.to_owned());
            self.nodes.len() - 1
        }))
    }

    /// A node's name.
    #[must_use]
    pub fn name(&self, node: NodeNumber) -> &str {
        self.nodes.get(node.0).map_or("", String::as_str)
    }

    /// The questions asked within a stretch of time, in order.
    #[must_use]
    pub fn questions(&self, within: &Range<Instant>) -> &[Question] {
        let first = self.questions.partition_point(|q| q.at < within.start);
        let end = self.questions.partition_point(|q| q.at < within.end);
        self.questions.get(first..end).unwrap_or_default()
    }

    /// How many of the questions asked within a stretch of time are lost, as far as is known at
    /// `now`.
    #[must_use]
    pub fn lost(&self, within: &Range<Instant>, now: Instant) -> usize {
        self.questions(within)
            .iter()
            .filter(|question| question.outcome(now) == Outcome::Lost)
            .count()
    }

    /// The longest time between two answers in a row, counting the questions asked within a
    /// stretch of time; zero if fewer than two were answered.
    #[must_use]
    pub fn longest_gap(&self, within: &Range<Instant>) -> Duration {
        let arrivals = self.arrivals(within);
        arrivals
            .iter()
            .zip(arrivals.iter().skip(1))
            .map(|(one, next)| next.at.since(one.at))
            .max()
            .unwrap_or_default()
    }

    /// Who answered when, in order; a node that answers again after another one has a new reign.
    #[must_use]
    pub fn reigns(&self, within: &Range<Instant>) -> Vec<Reign> {
        let mut reigns: Vec<Reign> = Vec::new();
        for Answer { at, node } in self.arrivals(within) {
            match reigns.last_mut() {
                Some(reign) if reign.node == node => reign.last = at,
                _ => reigns.push(Reign { node, first: at, last: at }),
            }
        }
        reigns
    }

    /// The last answer of all.
    #[must_use]
    pub fn last_answer(&self) -> Option<Answer> {
        // Answers may overtake each other, but not by much.
        self.questions
            .iter()
            .rev()
            .filter_map(|question| question.answer)
            .take(1000)
            .max_by_key(|answer| answer.at)
    }

    /// The answers in time, in the order of their arrival.
    fn arrivals(&self, within: &Range<Instant>) -> Vec<Answer> {
        let mut arrivals: Vec<_> = self
            .questions(within)
            .iter()
            .filter_map(|question| question.answer_in_time())
            .collect();
        arrivals.sort_by_key(|answer| answer.at);
        arrivals
    }
}

impl Question {
    /// What became of it, as far as is known at `now`.
    #[must_use]
    pub fn outcome(&self, now: Instant) -> Outcome {
        match self.answer_in_time() {
            Some(answer) => Outcome::Answered(answer.node),
            None if now.since(self.at) > PATIENCE => Outcome::Lost,
            None => Outcome::Open,
        }
    }

    fn answer_in_time(&self) -> Option<Answer> {
        self.answer.filter(|answer| answer.at.since(self.at) <= PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(value))
    }

    /// Questions every millisecond; `answers` says for each after how long and by whom.
    fn record(answers: &[Option<(u64, &str)>]) -> Record {
        let mut record = Record::default();
        for (sent, answer) in (0..).zip(answers) {
            let number = record.asked(ms(sent));
            if let Some((after, name)) = answer {
                let node = record.node(name);
                let at = ms(sent + after);
                record.answered(number, Answer { at, node });
            }
        }
        record
    }

    #[test]
    fn an_unanswered_question_is_open_for_a_second_and_then_lost() {
        let record = record(&[Some((1, "a")), None, Some((1, "a"))]);
        let all = ms(0)..ms(3);
        assert_eq!(record.lost(&all, ms(1001)), 0);
        assert_eq!(record.lost(&all, ms(1002)), 1);
        assert_eq!(record.lost(&(ms(2)..ms(3)), ms(5000)), 0);
    }

    #[test]
    fn an_answer_after_a_second_is_lost_too() {
        let record = record(&[Some((1001, "a")), Some((1000, "a"))]);
        assert_eq!(record.lost(&(ms(0)..ms(2)), ms(2000)), 1);
    }

    #[test]
    fn the_gap_lies_between_arrivals_whatever_their_order() {
        // The second question's answer arrives at 11, after that of the fourth at 4.
        let record =
            record(&[Some((1, "a")), Some((10, "a")), None, Some((1, "b")), Some((16, "b"))]);
        assert_eq!(record.longest_gap(&(ms(0)..ms(5))), Duration::from_millis(20 - 11));
        assert_eq!(record.longest_gap(&(ms(0)..ms(1))), Duration::ZERO);
    }

    #[test]
    fn a_reign_ends_with_the_first_answer_of_another_node() {
        let answers = "aaba".chars().map(|name| match name {
            'a' => Some((1, "a")),
            _ => Some((1, "b")),
        });
        let record = record(&answers.collect::<Vec<_>>());
        let reigns: Vec<_> = record
            .reigns(&(ms(0)..ms(4)))
            .into_iter()
            .map(|reign| (record.name(reign.node).to_owned(), reign.first, reign.last))
            .collect();
        assert_eq!(
            reigns,
            [
                ("a".to_owned(), ms(1), ms(2)),
                ("b".to_owned(), ms(3), ms(3)),
                ("a".to_owned(), ms(4), ms(4)),
            ]
        );
    }

    #[test]
    fn the_first_answer_counts_and_unknown_numbers_are_ignored() {
        let mut record = record(&[Some((1, "a"))]);
        let node = record.node("b");
        record.answered(0, Answer { at: ms(2), node });
        record.answered(7, Answer { at: ms(2), node });
        assert_eq!(record.reigns(&(ms(0)..ms(9))).len(), 1);
        assert_eq!(record.last_answer().map(|a| record.name(a.node)), Some("a"));
    }
}
