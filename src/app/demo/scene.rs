//! What there is to see at one moment, and how it looks as text.

use std::fmt;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use crate::engine::time::Instant;
use crate::engine::vrrp::role::Role;
use crate::io::lab::record::Record;
use crate::model::Priority;

/// How long a letter of the strip lasts.
const CELL: Duration = Duration::from_millis(50);

/// Letters of the strip.
const CELLS: u32 = 64;

/// A question is a gap in the strip when it was not answered by then, though it may be yet.
const PROMPT: Duration = Duration::from_millis(50);

/// Everything that is shown.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) address: IpAddr,
    pub(super) machines: Vec<Machine>,
    pub(super) strip: Vec<Cell>,
    pub(super) asked: usize,
    pub(super) lost: usize,
    pub(super) acts: Vec<Act>,
}

/// A machine as people see it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) colour: Colour,
    pub(super) address: IpAddr,
    pub(super) priority: Priority,
    pub(super) fate: Fate,
    /// What its daemon says that it is; `None` if it does not answer.
    pub(super) role: Option<Role>,
    /// Whether its kernel has the virtual address.
    pub(super) holds: bool,
}

/// What was done to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Running,
    CutOff,
    Stopped,
    Killed,
}

/// A stretch of the strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// All was answered, the last one by this machine.
    Full(usize),
    /// Some was, the last one by this machine.
    Part(usize),
    /// Nothing was.
    Silence,
}

/// Something that happens, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) title: String,
    pub(super) allowed: Allowed,
    /// `None` while it goes on.
    pub(super) result: Option<ActResult>,
}

/// What an act may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// The address may be silent for so long.
    Silence(Duration),
    /// Not one answer may be lost.
    NoLoss,
}

/// What came of an act.
#[derive(Clone, Debug)]
pub(super) struct ActResult {
    /// Who answers now; `None`: it was not settled in time.
    pub(super) successor: Option<&'static str>,
    pub(super) silence: Duration,
    /// `None` where nothing could be lost yet.
    pub(super) lost: Option<usize>,
}

/// A terminal's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Amber,
    Blue,
    Crimson,
    Good,
    Bad,
    Faint,
}

/// Whether colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Palette {
    pub(super) colours: bool,
}

impl Act {
    /// Whether it showed a takeover within what it may cost.
    pub(super) fn kept(&self) -> Option<bool> {
        let result = self.result.as_ref()?;
        let within = match self.allowed {
            Allowed::Silence(longest) => result.silence <= longest,
            Allowed::NoLoss => result.lost == Some(0),
        };
        Some(within && result.successor.is_some())
    }
}

impl Machine {
    /// Whether its daemon is up and the network reaches it.
    pub(super) fn takes_part(&self) -> bool {
        self.fate == Fate::Running
    }

    /// Whether the network does not reach it.
    pub(super) fn is_cut_off(&self) -> bool {
        self.fate == Fate::CutOff
    }

    /// What it is, in words.
    pub(super) fn state(&self) -> String {
        let left_behind = if self.holds { ", address lingers" } else { "" };
        match (self.fate, self.role) {
            (Fate::Running, Some(Role::Active)) => "Active".to_owned(),
            (Fate::Running, Some(Role::Backup)) => "Backup".to_owned(),
            (Fate::Running, Some(Role::Initialize) | None) => "starts".to_owned(),
            (Fate::CutOff, Some(Role::Active)) => "cut off, and still Active".to_owned(),
            (Fate::CutOff, _) => "cut off".to_owned(),
            (Fate::Stopped, Some(_)) => "hands over".to_owned(),
            (Fate::Stopped, None) => format!("stopped{left_behind}"),
            (Fate::Killed, _) => format!("killed{left_behind}"),
        }
    }
}

/// The strip of a record's last seconds before `now`; `number` tells a machine's place by its name.
pub(super) fn strip(
    record: &Record,
    now: Instant,
    number: impl Fn(&str) -> Option<usize>,
) -> Vec<Cell> {
    // Cells begin at multiples of their length, so that they do not flicker while they move.
    let end = (now - PROMPT).floor_to(CELL);
    (1..=CELLS)
        .rev()
        .map(|back| end - CELL * back)
        .filter_map(|start| cell(record, &(start..start + CELL), &number))
        .collect()
}

/// What became of the questions of a stretch of time; `None` if there are none.
fn cell(
    record: &Record,
    within: &Range<Instant>,
    number: impl Fn(&str) -> Option<usize>,
) -> Option<Cell> {
    let questions = record.questions(within);
    let answers = || questions.iter().filter_map(|question| question.answer);
    let missing = questions.len() - answers().count();
    let machine = answers().next_back().and_then(|answer| number(record.name(answer.node)));
    (!questions.is_empty()).then_some(match machine {
        Some(machine) if missing == 0 => Cell::Full(machine),
        Some(machine) => Cell::Part(machine),
        None => Cell::Silence,
    })
}

impl Palette {
    /// `text` in a colour.
    pub(super) fn paint(self, colour: Colour, text: impl fmt::Display) -> String {
        let code = match colour {
            Colour::Amber => "33",
            Colour::Blue => "94",
            Colour::Crimson => "95",
            Colour::Good => "32",
            Colour::Bad => "1;31",
            Colour::Faint => "2",
        };
        self.with(code, text)
    }

    /// `text` in black or white on a machine's colour.
    fn fill(self, colour: Colour, text: impl fmt::Display) -> String {
        let code = match colour {
            Colour::Amber => "30;43",
            Colour::Blue => "97;44",
            Colour::Crimson => "97;45",
            Colour::Good | Colour::Bad | Colour::Faint => "7",
        };
        self.with(code, text)
    }

    fn with(self, code: &str, text: impl fmt::Display) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// The whole picture, for a terminal of 80 columns.
    pub(super) fn picture(self, scene: &Scene) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        self.write_picture(scene, &mut text).ok();
        text
    }

    fn write_picture(self, scene: &Scene, text: &mut String) -> fmt::Result {
        writeln!(
            text,
            "\n  Three machines share {}; a client asks it 1000 times a second.\n",
            scene.address
        )?;
        for machine in &scene.machines {
            writeln!(text, "  {}", self.machine(machine, scene.address))?;
        }
        writeln!(text, "\n  {}", self.strip(scene))?;
        let totals = format!("{} asked, {} lost", scene.asked, scene.lost);
        let legend = format!("who answers, {} ms a letter", CELL.as_millis());
        writeln!(text, "  {}\n", self.paint(Colour::Faint, format!("{legend:<32}{totals:>32}")))?;
        text.push_str(&self.table(&scene.acts));
        Ok(())
    }

    fn machine(self, machine: &Machine, virtual_address: IpAddr) -> String {
        let Machine { name, colour, address, priority, .. } = machine;
        let name = self.paint(*colour, format_args!("{name:<9}"));
        let holds = if machine.holds {
            self.paint(*colour, format_args!("{virtual_address:<13}"))
        } else {
            " ".repeat(13)
        };
        let (address, state) = (address.to_string(), machine.state());
        format!("{name} {address:<12} priority {priority:<5} {holds} {state}")
    }

    fn strip(self, scene: &Scene) -> String {
        let cell = |cell: &Cell| {
            let (Cell::Full(number) | Cell::Part(number)) = *cell else { return None };
            let machine = scene.machines.get(number)?;
            let initial = machine.name.chars().next()?;
            Some(match cell {
                Cell::Full(_) => self.fill(machine.colour, initial.to_ascii_uppercase()),
                Cell::Part(_) | Cell::Silence => self.paint(machine.colour, initial),
            })
        };
        let silence = || self.paint(Colour::Bad, "·");
        scene.strip.iter().map(|part| cell(part).unwrap_or_else(silence)).collect()
    }

    /// What happened so far, one line an act.
    pub(super) fn table(self, acts: &[Act]) -> String {
        let heading =
            format!("{:<35}{:<12}{:>8}{:>6}   allowed", "", "who answers", "silence", "lost");
        let mut text = format!("  {}\n", self.paint(Colour::Faint, heading));
        for act in acts {
            text += &format!("  {:<35}{}\n", act.title, self.result(act));
        }
        text
    }

    fn result(self, act: &Act) -> String {
        let Some(result) = &act.result else {
            return self.paint(Colour::Faint, "…");
        };
        let successor = result.successor.unwrap_or("nobody");
        let lost = result.lost.map_or_else(|| "–".to_owned(), |lost| lost.to_string());
        let mark = match act.kept() {
            Some(true) => self.paint(Colour::Good, "✓"),
            _ => self.paint(Colour::Bad, "✗"),
        };
        let silence = format!("{} ms", result.silence.as_millis());
        format!("{successor:<12}{silence:>8}{lost:>6}   {:<8}{mark}", act.allowed.to_string())
    }
}

impl fmt::Display for ActResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let successor = self.successor.unwrap_or("nobody");
        write!(f, "{successor} answers after {} ms of silence", self.silence.as_millis())?;
        self.lost.map_or(Ok(()), |lost| write!(f, ", {lost} lost"))
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(longest) => write!(f, "{} ms", longest.as_millis()),
            Self::NoLoss => f.write_str("0 lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::lab::record::Answer;

    const PLAIN: Palette = Palette { colours: false };

    fn ms(value: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(value))
    }

    fn machine(name: &'static str, fate: Fate, role: Option<Role>, holds: bool) -> Machine {
        Machine {
            name,
            colour: Colour::Amber,
            address: IpAddr::from([192, 0, 2, 11]),
            priority: Priority::DEFAULT,
            fate,
            role,
            holds,
        }
    }

    fn act(allowed: Allowed, silence: u64, lost: usize) -> Act {
        let silence = Duration::from_millis(silence);
        let result = ActResult { successor: Some("blue"), silence, lost: Some(lost) };
        Act { title: "amber is killed".to_owned(), allowed, result: Some(result) }
    }

    #[test]
    fn the_strip_shows_who_answered_and_where_nobody_did() {
        let mut record = Record::default();
        for sent in 1000..1200 {
            let number = record.asked(ms(sent));
            let node = record.node(if sent < 1100 { "amber" } else { "blue" });
            if !(1030..1150).contains(&sent) {
                record.answered(number, Answer { at: ms(sent + 1), node });
            }
        }
        let number = |name: &str| ["amber", "blue"].iter().position(|known| *known == name);
        assert_eq!(strip(&record, ms(1249), number), [Cell::Part(0), Cell::Silence, Cell::Silence]);
        assert_eq!(
            strip(&record, ms(1250), number),
            [Cell::Part(0), Cell::Silence, Cell::Silence, Cell::Full(1)]
        );
    }

    #[test]
    fn an_act_is_judged_by_what_it_may_cost() {
        let half = Allowed::Silence(Duration::from_millis(500));
        assert_eq!(act(half, 500, 500).kept(), Some(true));
        assert_eq!(act(half, 501, 0).kept(), Some(false));
        assert_eq!(act(Allowed::NoLoss, 900, 0).kept(), Some(true));
        assert_eq!(act(Allowed::NoLoss, 1, 1).kept(), Some(false));
        let mut unsettled = act(half, 1, 0);
        unsettled.result.as_mut().unwrap().successor = None;
        assert_eq!(unsettled.kept(), Some(false));
    }

    #[test]
    fn a_picture_fits_eighty_columns() {
        let half = Allowed::Silence(Duration::from_millis(500));
        let mut acts = vec![act(half, 310, 309), act(Allowed::NoLoss, 2, 1)];
        acts.push(Act { title: "amber is mended".to_owned(), allowed: half, result: None });
        let scene = Scene {
            address: IpAddr::from([192, 0, 2, 50]),
            machines: vec![
                machine("amber", Fate::Killed, None, true),
                machine("blue", Fate::Running, Some(Role::Active), true),
                machine("crimson", Fate::CutOff, Some(Role::Active), false),
            ],
            strip: vec![Cell::Full(0), Cell::Part(0), Cell::Silence, Cell::Full(1)],
            asked: 12345,
            lost: 310,
            acts,
        };
        let picture = PLAIN.picture(&scene);
        assert!(picture.lines().all(|line| line.chars().count() < 80));
        insta::assert_snapshot!(picture);
    }
}
