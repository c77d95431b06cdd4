//! Shows scenes: as a picture that moves where a terminal watches, else as lines.

use std::io::Write;

use super::scene::{Act, Palette, Scene};

/// Begins a synchronised update, hides the cursor, and keeps long lines from wrapping.
const OPEN: &str = "\x1b[?25l\x1b[?7l";

/// Undoes [`OPEN`].
const CLOSE: &str = "\x1b[?7h\x1b[?25h";

/// What stands between the scenes and whoever watches.
pub(super) enum Curtain<'a> {
    /// A terminal: each picture is drawn over the last one.
    Terminal { out: &'a mut dyn Write, palette: Palette, drawn: usize },
    /// Anything else: a line for each thing that happens.
    Lines { out: &'a mut dyn Write, told: Vec<String> },
}

impl<'a> Curtain<'a> {
    /// Opens it.
    pub(super) fn open(out: &'a mut dyn Write, is_terminal: bool) -> anyhow::Result<Self> {
        if !is_terminal {
            return Ok(Self::Lines { out, told: Vec::new() });
        }
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        write!(out, "{OPEN}")?;
        Ok(Self::Terminal { out, palette: Palette { colours }, drawn: 0 })
    }

    /// Shows what is there to see now.
    pub(super) fn show(&mut self, scene: &Scene) -> anyhow::Result<()> {
        match self {
            Self::Terminal { out, palette, drawn } => {
                let picture = palette.picture(scene);
                let back = if *drawn > 0 { format!("\x1b[{drawn}A") } else { String::new() };
                // Each line clears what the last picture left of it.
                let lines = picture.replace('\n', "\x1b[K\n");
                write!(out, "{back}{lines}\x1b[J")?;
                out.flush()?;
                *drawn = picture.lines().count();
            }
            Self::Lines { out, told } => {
                let news = news(scene);
                for line in news.iter().filter(|line| !told.contains(line)) {
                    writeln!(out, "{line}")?;
                }
                out.flush()?;
                *told = news;
            }
        }
        Ok(())
    }

    /// Leaves what happened on the screen.
    pub(super) fn close(mut self, scene: &Scene) -> anyhow::Result<()> {
        self.show(scene)?;
        if let Self::Lines { out, .. } = &mut self {
            let palette = Palette { colours: false };
            write!(out, "\n{}", palette.table(&scene.acts))?;
        }
        Ok(())
    }
}

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        if let Self::Terminal { out, .. } = self {
            write!(out, "{CLOSE}").and_then(|()| out.flush()).ok();
        }
    }
}

/// What there is to tell of a scene, each fact a line.
fn news(scene: &Scene) -> Vec<String> {
    let machines =
        scene.machines.iter().map(|machine| format!("    {}: {}", machine.name, machine.state()));
    // A result comes after what led to it, the next act after both.
    let (current, past) = scene
        .acts
        .split_last()
        .map_or((None, [].as_slice()), |(current, past)| (Some(current), past));
    let told = |act: &Act| {
        [
            Some(act.title.clone()),
            act.result.as_ref().map(|result| format!("    {}: {result}", act.title)),
        ]
    };
    past.iter().chain(current).flat_map(told).flatten().chain(machines).collect()
}
