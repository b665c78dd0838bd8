//! The terminal, and the threads that wait for keys, the daemon and signals. However
//! the program ends, the terminal is restored.

use std::any::Any;
use std::io::{self, BufWriter, Stdout};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::layout::{Position, Rect};

use tabane_io::poll::{Interest, Poller};
use tabane_io::signals::Signals;

use super::keys::{self, Action};
use super::model::{Model, Stamp};
use super::rows::Look;
use super::view::{self, Layout};
use crate::status::{self, StatusReport};

/// News that wait while the terminal is slow.
const NEWS_MAX: usize = 16;

/// The program's events.
enum News {
    /// A key, or another size of the terminal.
    Input(Event),
    /// The daemon's report, or why there is none.
    Told(Box<Result<StatusReport, String>>),
    /// A signal, or the terminal is gone.
    End,
    /// A bug in one of the threads.
    Panic(Box<dyn Any + Send>),
}

/// Draws until the user leaves, a signal comes, or the terminal is gone.
///
/// # Errors
/// Those of the terminal.
pub fn run(interval: Duration) -> io::Result<()> {
    // Before any thread is started, so that it has them blocked, too.
    let signals = Signals::new()?;
    let (sender, news) = mpsc::sync_channel(NEWS_MAX);
    let mut screen = Screen::open()?;
    let look = Look::from_environment();
    start("signals", &sender, move |sender| {
        wait_for_signal(signals, sender)
    })?;
    start("input", &sender, read_input)?;
    start("daemon", &sender, move |sender| ask(interval, sender))?;
    // So that the end of the threads is seen.
    drop(sender);
    follow(&mut screen, look, &news)
}

fn start(
    name: &str,
    sender: &SyncSender<News>,
    body: impl FnOnce(&SyncSender<News>) + Send + 'static,
) -> io::Result<()> {
    let sender = sender.clone();
    let named = thread::Builder::new().name(name.to_owned());
    named.spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(|| body(&sender)));
        // Without this thread the program is useless. If nobody receives this, the
        // program has ended.
        let _ = sender.send(ended.map_or_else(News::Panic, |()| News::End));
    })?;
    Ok(())
}

fn wait_for_signal(mut signals: Signals, _: &SyncSender<News>) {
    let mut ready = Vec::new();
    let Ok(poller) = Poller::new() else {
        return;
    };
    if poller.register(&signals, 0, Interest::Read).is_err() {
        return;
    }
    while let Ok(None) = signals.read() {
        if poller.wait(None, &mut ready).is_err() {
            return;
        }
    }
}

fn read_input(sender: &SyncSender<News>) {
    while let Ok(event) = event::read() {
        if sender.send(News::Input(event)).is_err() {
            return;
        }
    }
}

fn ask(interval: Duration, sender: &SyncSender<News>) {
    loop {
        let next = Instant::now() + interval;
        let told = status::ask_here(status::ask_report).map_err(|e| e.to_string());
        if sender.send(News::Told(Box::new(told))).is_err() {
            return;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn follow(screen: &mut Screen, look: Look, news: &Receiver<News>) -> io::Result<()> {
    let began = Instant::now();
    let mut model = Model::new();
    loop {
        let size = screen.terminal.size()?;
        let page = Layout::of(&model, size.height.into()).peers;
        model.scroll_to_selected(page);
        let now_s = began.elapsed().as_secs();
        screen.terminal.draw(|frame| {
            view::draw(&model, look, now_s, frame.area(), frame.buffer_mut());
        })?;
        // All that has come is taken before the next drawing: over a slow
        // line, keys must not queue up behind pictures.
        let mut next = news.recv().ok();
        loop {
            match next {
                None | Some(News::End) => return Ok(()),
                Some(News::Panic(payload)) => resume_unwind(payload),
                Some(News::Told(told)) => model.take(stamp(began), *told),
                Some(News::Input(Event::Key(key))) => match keys::action(key) {
                    Some(Action::Quit) => return Ok(()),
                    Some(Action::Redraw) => screen.clear()?,
                    Some(action) => model.act(action, page),
                    None => {}
                },
                Some(News::Input(_)) => {}
            }
            match news.try_recv() {
                Ok(more) => next = Some(more),
                Err(_) => break,
            }
        }
    }
}

fn stamp(began: Instant) -> Stamp {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    Stamp {
        at: began.elapsed(),
        unix_ms: wall.unwrap_or_default().as_millis() as u64,
    }
}

/// The terminal as this program needs it; as it was before when dropped.
struct Screen {
    // Buffered, so that one picture is one write.
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    fn open() -> io::Result<Screen> {
        restore_before_panics_are_told();
        terminal::enable_raw_mode()?;
        let opened = execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::new(io::stdout()))));
        match opened {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Has everything drawn anew. `Terminal::clear` would ask the terminal where the cursor is, and wait in
    /// vain: the thread that reads keys has the answer.
    fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Nobody is left to tell if the terminal is gone.
    let _ = terminal::disable_raw_mode();
    let _ = execute!(io::stdout(), terminal::LeaveAlternateScreen, cursor::Show);
}

fn restore_before_panics_are_told() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        told(info);
    }));
}
