//! The edge of internode messaging on one thread: outbound connections with their queues, inbound
//! connections, and requests that wait for answers.
//!
//! Every thread that sends has its own [`Messaging`] and its own connections. Answers arrive on
//! whatever connection a peer has to whatever thread of ours: the low byte of a message's id says
//! which thread waits for it.

mod inbound;
mod outbound;

pub(crate) use inbound::{Received, accept};

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use helenus_internode::error::EncodeError;
use helenus_internode::frame::Framing;
use helenus_internode::handshake::ConnectionType;
use helenus_internode::message::{Header, Message};
use helenus_internode::payload::FailureReason;
use helenus_internode::verb::{Timeouts, Verb};
use helenus_internode::version::MessagingVersion;
use helenus_seams::Clock;
use helenus_types::Endpoint;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Writes a payload once the connection's version is known.
pub(crate) type Encode = Box<dyn FnOnce(MessagingVersion) -> Result<Bytes, EncodeError>>;

/// A message whose payload is not written yet.
pub(crate) struct Outgoing {
    header: Header,
    encode: Encode,
    /// When it need not be sent any more, in the clock's monotonic time.
    deadline: Duration,
    /// Whether its id is of our making: an answer bears the id of the peer's request, which may be
    /// that of another request of ours.
    ours: bool,
}

/// Settings of messaging.
#[derive(Debug, Clone)]
pub(crate) struct MessagingSettings {
    /// Our broadcast address, as peers know us.
    pub(crate) me: Endpoint,
    /// The address that outbound connections come from.
    pub(crate) local_address: std::net::IpAddr,
    pub(crate) timeouts: Timeouts,
    pub(crate) framing: Framing,
}

/// One answer, or why there is none.
pub(crate) type Answer = Result<Received, FailureReason>;

/// Messaging of one thread.
pub(crate) struct Messaging {
    settings: MessagingSettings,
    clock: Arc<dyn Clock>,
    thread: u8,
    next: Cell<u64>,
    waiting: RefCell<HashMap<u64, (Endpoint, oneshot::Sender<Answer>)>>,
    outbound: RefCell<HashMap<(Endpoint, ConnectionType), outbound::Queue>>,
}

impl Messaging {
    /// Messaging of the thread with this number (below 256, distinct in the process).
    pub(crate) fn new(settings: MessagingSettings, clock: Arc<dyn Clock>, thread: u8) -> Rc<Self> {
        // an answer meant for an earlier life of this node must not be taken for one to this one
        let first = u64::try_from(clock.wall_micros()).unwrap_or(1);
        Rc::new(Self {
            settings,
            clock,
            thread,
            next: Cell::new(first),
            waiting: RefCell::default(),
            outbound: RefCell::default(),
        })
    }

    /// Which thread waits for the answer with this id.
    pub(crate) fn thread_of(id: u64) -> u8 {
        id.to_le_bytes()[0]
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.wall_micros() / 1000
    }

    fn next_id(&self) -> u64 {
        let sequence = self.next.get();
        self.next.set(sequence.wrapping_add(1));
        ((sequence & 0x003f_ffff_ffff) << 8) | u64::from(self.thread)
    }

    /// Sends a message that nobody answers.
    pub(crate) fn send(self: &Rc<Self>, to: Endpoint, verb: Verb, encode: Encode) {
        let header = Header::new(self.next_id(), verb, self.now_ms(), &self.settings.timeouts);
        self.enqueue(to, header, encode, true);
    }

    /// Passes on what a peer sent for `to`: the header is the peer's, its id too.
    pub(crate) fn forward(self: &Rc<Self>, to: Endpoint, header: Header, encode: Encode) {
        self.enqueue(to, header, encode, false);
    }

    /// Sends an answer, or a failure, to a request.
    pub(crate) fn answer(self: &Rc<Self>, to: Endpoint, message: Message) {
        let Message { header, payload } = message;
        self.enqueue(to, header, Box::new(move |_| Ok(payload)), false);
    }

    /// Sends a request; the future gives the answer, or [`FailureReason::Timeout`].
    pub(crate) fn request(
        self: &Rc<Self>,
        to: Endpoint,
        verb: Verb,
        timeout: Duration,
        encode: Encode,
    ) -> LocalBoxFuture<'static, Answer> {
        let mut header = Header::new(self.next_id(), verb, self.now_ms(), &self.settings.timeouts);
        header.expires_after_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let id = header.id;
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, (to, sender));
        self.enqueue(to, header, encode, true);
        let messaging = Rc::clone(self);
        Box::pin(async move {
            let waiting = Waiting { messaging, id };
            let answer = tokio::time::timeout(timeout, receiver).await;
            drop(waiting);
            match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(FailureReason::Unknown),
                Err(_) => Err(FailureReason::Timeout),
            }
        })
    }

    fn enqueue(self: &Rc<Self>, to: Endpoint, header: Header, encode: Encode, ours: bool) {
        let life = Duration::from_millis(header.expires_after_ms.min(600_000));
        let deadline = self.clock.monotonic() + life;
        let id = header.id;
        let connection = if header.verb.is_urgent() {
            ConnectionType::Urgent
        } else {
            ConnectionType::Small
        };
        let outgoing = Outgoing {
            header,
            encode,
            deadline,
            ours,
        };
        let queued = self
            .outbound
            .borrow_mut()
            .entry((to, connection))
            .or_insert_with(|| outbound::Queue::start(self, to, connection))
            .push(outgoing);
        if !queued && ours {
            self.complete(id, Err(FailureReason::Timeout));
        }
    }

    /// Hands a peer's answer to whoever asked that peer.
    pub(crate) fn answered(&self, received: Received) {
        let id = received.message.header.id;
        let asked = self
            .waiting
            .borrow()
            .get(&id)
            .is_some_and(|(endpoint, _)| *endpoint == received.from);
        if asked {
            self.complete(id, Ok(received));
        } else {
            tracing::debug!(peer = %received.from, id, "nobody waits for this answer");
        }
    }

    /// Ends the waiting for an answer.
    fn complete(&self, id: u64, answer: Answer) {
        if let Some((_, sender)) = self.waiting.borrow_mut().remove(&id) {
            // the waiting side may have given up at this very moment
            drop(sender.send(answer));
        }
    }

    /// The peer's connection broke, or it was found down: nobody need wait for it any longer.
    pub(crate) fn fail_all(&self, endpoint: Endpoint) {
        let mut waiting = self.waiting.borrow_mut();
        let ids: Vec<u64> = waiting
            .iter()
            .filter(|(_, (to, _))| *to == endpoint)
            .map(|(id, _)| *id)
            .collect();
        let senders: Vec<_> = ids.iter().filter_map(|id| waiting.remove(id)).collect();
        drop(waiting);
        for (_, sender) in senders {
            drop(sender.send(Err(FailureReason::NodeDown)));
        }
    }
}

/// Forgets a request when its future is dropped.
struct Waiting {
    messaging: Rc<Messaging>,
    id: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.messaging.waiting.borrow_mut().remove(&self.id);
    }
}
