//! A shard's thread: its event loop, engine, messaging, coordinator, sessions and listeners.

use crate::cluster::SharedCluster;
use crate::control::ControlMessage;
use crate::handlers::{DataHandler, is_data};
use crate::messaging::{self, Messaging, MessagingSettings, Received};
use crate::replicas::NodeReplicas;
use crate::settings::Settings;
use crate::shard::{Shard, Stamps};
use crate::shards::{LocalData, ShardMessage, Shards};
use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use helenus_coordinator::{Coordinator, CoordinatorSettings};
use helenus_schema::Schema;
use helenus_seams::{Clock, Disk, Entropy};
use helenus_server::{Server, SharedStatements};
use helenus_storage::Engine;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// What every shard's thread is given.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) messaging: MessagingSettings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) schema: Arc<ArcSwap<Schema>>,
    pub(crate) cluster: SharedCluster,
    pub(crate) shards: Shards,
    pub(crate) control: mpsc::Sender<ControlMessage>,
    pub(crate) statements: Arc<SharedStatements>,
    /// Whether clients are to be served.
    pub(crate) serve_clients: watch::Receiver<bool>,
}

/// A listener that several threads may have on one address; the kernel spreads connections.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    let domain = if address.is_ipv4() {
        socket2::Domain::IPV4
    } else {
        socket2::Domain::IPV6
    };
    let open = || -> std::io::Result<TcpListener> {
        let socket =
            socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(1024)?;
        TcpListener::from_std(socket.into())
    };
    open().with_context(|| format!("listen on {address}"))
}

/// Accepts connections for ever, each served by its own task.
pub(crate) async fn accept_all<F: Future<Output = ()> + 'static>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(serve(stream));
            }
            Err(error) => {
                // out of file descriptors, most likely: the connections that are open go on
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

/// Where a received message goes.
pub(crate) struct Dispatcher {
    pub(crate) thread: u8,
    pub(crate) messaging: Rc<Messaging>,
    pub(crate) shards: Shards,
    pub(crate) control: mpsc::Sender<ControlMessage>,
    pub(crate) data: Rc<DataHandler>,
}

impl Dispatcher {
    pub(crate) fn dispatch(&self, received: Received) {
        let header = &received.message.header;
        if header.verb.is_response() {
            let thread = Messaging::thread_of(header.id);
            if thread == self.thread {
                self.messaging.answered(received);
            } else if thread == crate::control::THREAD {
                self.to_control(received);
            } else {
                self.shards.deliver(usize::from(thread), received);
            }
        } else if is_data(header.verb) {
            tokio::task::spawn_local(Rc::clone(&self.data).handle(received));
        } else {
            self.to_control(received);
        }
    }

    fn to_control(&self, received: Received) {
        let verb = received.message.header.verb;
        if self
            .control
            .try_send(ControlMessage::Received(received))
            .is_err()
        {
            tracing::warn!(
                verb = verb.name(),
                "the control thread's queue is full: a message is dropped"
            );
        }
    }
}

/// Runs a shard until its queue is closed.
pub(crate) async fn run(
    index: usize,
    engine: Engine,
    mut queue: mpsc::Receiver<ShardMessage>,
    shared: Shared,
) -> Result<()> {
    let thread = u8::try_from(index)
        .ok()
        .filter(|thread| *thread != crate::control::THREAD)
        .context("more than 255 shards are not supported: lower the setting shards")?;
    let messaging = Messaging::new(shared.messaging.clone(), Arc::clone(&shared.clock), thread);
    let sync_first = !matches!(
        shared.settings.commitlog_mode,
        crate::settings::CommitLogMode::Periodic(_)
    );
    let shard = Shard::new(index, engine, Arc::clone(&shared.disk), sync_first);
    shard.start();
    let local = LocalData {
        shards: shared.shards.clone(),
        own: Some(Rc::clone(&shard)),
    };
    let replicas = Rc::new(NodeReplicas {
        cluster: Arc::clone(&shared.cluster),
        local: local.clone(),
        messaging: Rc::clone(&messaging),
        control: shared.control.clone(),
        hinted_handoff: shared.settings.hinted_handoff,
        waiting_hints: Rc::default(),
        lost_hints: std::cell::Cell::default(),
    });
    let coordinator =
        Coordinator::new(Rc::clone(&replicas), coordinator_settings(&shared.settings));
    let backend = Rc::new(crate::backend::NodeBackend {
        coordinator,
        local: local.clone(),
        schema: Arc::clone(&shared.schema),
        cluster: Arc::clone(&shared.cluster),
        control: shared.control.clone(),
        stamps: Stamps::new(Arc::clone(&shared.clock)),
        entropy: Arc::clone(&shared.entropy),
        cluster_name: shared.settings.cluster_name.clone(),
    });
    let server = Server::new(backend, Arc::clone(&shared.statements));
    listen_to_peers(&shared, thread, &messaging, local)?;
    tokio::task::spawn_local(serve_clients(shared.clone(), Rc::clone(&server)));
    while let Some(message) = queue.recv().await {
        handle(message, &shard, &messaging, &server);
    }
    Ok(())
}

pub(crate) fn coordinator_settings(settings: &Settings) -> CoordinatorSettings {
    CoordinatorSettings {
        read_request_timeout: settings.read_request_timeout,
        range_request_timeout: settings.range_request_timeout,
        write_request_timeout: settings.write_request_timeout,
    }
}

fn listen_to_peers(
    shared: &Shared,
    thread: u8,
    messaging: &Rc<Messaging>,
    local: LocalData,
) -> Result<()> {
    let settings = &shared.settings;
    let listener = listen(SocketAddr::new(
        settings.listen_address,
        settings.storage_port,
    ))?;
    let data = DataHandler {
        local,
        messaging: Rc::clone(messaging),
        schema: Arc::clone(&shared.schema),
    };
    let dispatcher = Rc::new(Dispatcher {
        thread,
        messaging: Rc::clone(messaging),
        shards: shared.shards.clone(),
        control: shared.control.clone(),
        data: Rc::new(data),
    });
    tokio::task::spawn_local(accept_all(listener, move |stream| {
        let dispatcher = Rc::clone(&dispatcher);
        async move { messaging::accept(stream, |received| dispatcher.dispatch(received)).await }
    }));
    Ok(())
}

/// Listens for clients while the node says so.
async fn serve_clients(mut shared: Shared, server: Rc<Server<crate::backend::NodeBackend>>) {
    let address = SocketAddr::new(
        shared.settings.rpc_address,
        shared.settings.native_transport_port,
    );
    loop {
        if shared.serve_clients.wait_for(|serve| *serve).await.is_err() {
            return;
        }
        let listener = match listen(address) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "clients cannot be served");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                continue;
            }
        };
        let accepting = accept_all(listener, |stream| {
            helenus_server::serve(stream, Rc::clone(&server))
        });
        tokio::select! {
            () = accepting => {}
            _ = shared.serve_clients.wait_for(|serve| !*serve) => server.close_sessions(),
        }
    }
}

fn handle(
    message: ShardMessage,
    shard: &Rc<Shard>,
    messaging: &Rc<Messaging>,
    server: &Rc<Server<crate::backend::NodeBackend>>,
) {
    // whoever asked may have given up: an answer that nobody takes is dropped
    match message {
        ShardMessage::Apply(mutation, reply) => {
            let shard = Rc::clone(shard);
            tokio::task::spawn_local(async move { drop(reply.send(shard.apply(&mutation).await)) });
        }
        ShardMessage::Read(command, reply) => drop(reply.send(shard.read(&command))),
        ShardMessage::Answer(received) => {
            messaging.answered(received);
        }
        ShardMessage::Schema(schema, reply) => drop(reply.send(shard.set_schema(schema))),
        ShardMessage::Flush(tables, reply) => {
            let shard = Rc::clone(shard);
            tokio::task::spawn_local(async move { drop(reply.send(shard.flush(tables).await)) });
        }
        ShardMessage::Truncate(table, reply) => drop(reply.send(shard.truncate(table))),
        ShardMessage::Drain(reply) => {
            let shard = Rc::clone(shard);
            tokio::task::spawn_local(async move { drop(reply.send(shard.drain().await)) });
        }
        ShardMessage::Metrics(reply) => drop(reply.send(shard.metrics())),
        ShardMessage::Event(event) => server.publish(&event),
    }
}
