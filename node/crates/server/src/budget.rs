//! What one connection may hold in memory: requests that run, their bytes, and answers that the client
//! has not taken yet.
//!
//! Invariant B1: a request is admitted only below all limits, so a client that sends without reading its
//! answers is not read any more (V2).

use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::{Notify, Semaphore};

/// Requests of one connection that may run at once.
pub const MAX_IN_FLIGHT: usize = 1024;

/// Bytes of the requests of one connection that may run at once; a greater request runs alone.
const MAX_REQUEST_BYTES: u32 = 32 << 20;

/// No request is admitted while more bytes of answers than this wait for the client.
const MAX_UNSENT_BYTES: usize = 16 << 20;

/// The budget of one connection.
pub(crate) struct Budget {
    requests: Semaphore,
    request_bytes: Semaphore,
    unsent: Cell<usize>,
    closed: Cell<bool>,
    sent: Notify,
}

/// The right of one request to run; given back when dropped.
pub(crate) struct Admission {
    budget: Rc<Budget>,
    bytes: u32,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.budget.requests.add_permits(1);
        let bytes = usize::try_from(self.bytes).unwrap_or(0);
        self.budget.request_bytes.add_permits(bytes);
    }
}

impl Budget {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            requests: Semaphore::new(MAX_IN_FLIGHT),
            request_bytes: Semaphore::new(usize::try_from(MAX_REQUEST_BYTES).unwrap_or(0)),
            unsent: Cell::new(0),
            closed: Cell::new(false),
            sent: Notify::new(),
        })
    }

    /// Waits until a request of so many bytes may run; `None` when the client is gone.
    pub(crate) async fn admit(self: &Rc<Self>, bytes: usize) -> Option<Admission> {
        while self.unsent.get() > MAX_UNSENT_BYTES && !self.closed.get() {
            self.sent.notified().await;
        }
        if self.closed.get() {
            return None;
        }
        let bytes = u32::try_from(bytes).map_or(MAX_REQUEST_BYTES, |n| n.min(MAX_REQUEST_BYTES));
        self.requests.acquire().await.ok()?.forget();
        // from here on the admission gives both back
        let mut admission = Admission {
            budget: Rc::clone(self),
            bytes: 0,
        };
        self.request_bytes.acquire_many(bytes).await.ok()?.forget();
        admission.bytes = bytes;
        Some(admission)
    }

    /// Waits until no request runs.
    pub(crate) async fn idle(&self) {
        let all = u32::try_from(MAX_IN_FLIGHT).unwrap_or(u32::MAX);
        drop(self.requests.acquire_many(all).await);
    }

    /// An answer of so many bytes waits for the client.
    pub(crate) fn answered(&self, bytes: usize) {
        self.unsent.set(self.unsent.get().saturating_add(bytes));
    }

    /// The client has taken so many bytes of answers.
    pub(crate) fn sent(&self, bytes: usize) {
        self.unsent.set(self.unsent.get().saturating_sub(bytes));
        self.sent.notify_one();
    }

    /// Nothing can be sent any more.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.sent.notify_one();
    }
}
