//! Answers on their way to the client; those of watches can be frozen.

use std::error::Error;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::watch;

type Failure = Box<dyn Error + Send + Sync>;
pub(super) type Answer = UnsyncBoxBody<Bytes, Failure>;

/// As it comes.
pub(super) fn whole<B>(body: B) -> Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Watches up to number `frozen` show nothing.
#[derive(Default)]
pub(super) struct Ice {
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    begun: u64,
    frozen: u64,
}

impl Ice {
    pub(super) fn freeze(&self) {
        self.state.send_modify(|state| state.frozen = state.begun);
    }

    pub(super) fn thaw(&self) {
        self.state.send_modify(|state| state.frozen = 0);
    }

    /// The body of a watch, as long as it is not frozen.
    pub(super) fn watch<B>(&self, body: B) -> Answer
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Failure>,
    {
        let mut number = 0;
        self.state.send_modify(|state| {
            state.begun += 1;
            number = state.begun;
        });
        let frames = stream::unfold((body, self.state.subscribe()), move |(mut body, mut ice)| {
            async move {
                let frame: Option<Result<Frame<Bytes>, Failure>> =
                    body.frame().await.map(|frame| frame.map_err(Into::into));
                // The end of a frozen watch is not shown either.
                ice.wait_for(|state| state.frozen < number).await.ok()?;
                Some((frame?, (body, ice)))
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }
}
