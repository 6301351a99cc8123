//! A backend in memory, and clients over real sockets of the loopback.

use bytes::{Bytes, BytesMut};
use futures::future::LocalBoxFuture;
use helenus_coordinator::{CoordinatorError, WriteKind};
use helenus_cql::ClusterFacts;
use helenus_native::client::ClientConnection;
use helenus_native::{
    Compression, ProtocolVersion, QueryParameters, Request, Response, SchemaChange,
};
use helenus_rows::{
    Cell, Clustering, ColumnData, LivenessInfo, Mutation, Partition, ReadCommand, ReadKind, Row,
    Unfiltered,
};
use helenus_schema::system::system_keyspaces;
use helenus_schema::{Schema, TableMetadata};
use helenus_server::{Backend, RequestError, Server, SharedStatements, serve};
use helenus_types::ConsistencyLevel;
use std::cell::Cell as Counter;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Answers every read of one partition with one row of `value`; counts what it is asked.
pub(crate) struct MemoryBackend {
    pub(crate) schema: Arc<Schema>,
    /// What every text and blob column holds.
    pub(crate) value: Bytes,
    /// Reads so far.
    pub(crate) reads: Counter<usize>,
}

impl Backend for MemoryBackend {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }

    fn now_micros(&self) -> i64 {
        1_700_000_000_000_000
    }

    fn entropy(&self) -> [u8; 16] {
        [7; 16]
    }

    fn datacenters(&self) -> Vec<String> {
        Vec::new()
    }

    fn cluster_facts(&self) -> ClusterFacts {
        ClusterFacts {
            name: "test".into(),
            snitch: "test".into(),
        }
    }

    fn read(
        &self,
        command: ReadCommand,
        _: ConsistencyLevel,
    ) -> LocalBoxFuture<'static, Result<Vec<Partition>, CoordinatorError>> {
        self.reads.set(self.reads.get() + 1);
        let ReadKind::Partition { key, .. } = &command.kind else {
            return Box::pin(async { Ok(Vec::new()) });
        };
        let mut row = Row::new(Clustering::default());
        row.liveness = LivenessInfo::new(1, 0, 0);
        for column in command.table.regular_columns() {
            if column.name == "release_version" {
                let cell = Cell::live(1, 0, 0, None, self.value.clone());
                row.columns.push((column.id, ColumnData::Simple(cell)));
            }
        }
        let mut partition = Partition::new(key.clone());
        partition.unfiltereds.push(Unfiltered::Row(row));
        Box::pin(async move { Ok(vec![partition]) })
    }

    fn write(
        &self,
        _: Vec<Mutation>,
        _: ConsistencyLevel,
        _: WriteKind,
    ) -> LocalBoxFuture<'static, Result<(), CoordinatorError>> {
        Box::pin(async { Ok(()) })
    }

    fn change_schema(
        &self,
        _: String,
        _: Option<String>,
    ) -> LocalBoxFuture<'static, Result<Option<SchemaChange>, RequestError>> {
        Box::pin(async { Ok(None) })
    }

    fn truncate(
        &self,
        _: Arc<TableMetadata>,
    ) -> LocalBoxFuture<'static, Result<(), CoordinatorError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A server on the loopback, within the running local set.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) backend: Rc<MemoryBackend>,
}

impl TestServer {
    pub(crate) async fn start(value_bytes: usize) -> Self {
        let keyspaces = system_keyspaces().into_iter().map(Arc::new);
        let backend = Rc::new(MemoryBackend {
            schema: Arc::new(Schema::new(keyspaces, uuid::Uuid::nil())),
            value: vec![b'x'; value_bytes].into(),
            reads: Counter::new(0),
        });
        let listener = TcpListener::bind("127.0.20.40:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::new(Rc::clone(&backend), Arc::new(SharedStatements::default()));
        tokio::task::spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::task::spawn_local(serve(stream, Rc::clone(&server)));
            }
        });
        Self { address, backend }
    }
}

/// A client that keeps to the protocol.
pub(crate) struct Client {
    pub(crate) reader: OwnedReadHalf,
    pub(crate) writer: OwnedWriteHalf,
    connection: ClientConnection,
}

/// A statement that the backend answers with one row.
pub(crate) fn select() -> Request {
    Request::Query {
        query: "SELECT release_version FROM system.local WHERE key = 'local'".into(),
        parameters: QueryParameters::new(ConsistencyLevel::One),
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, version: ProtocolVersion) -> Self {
        let (reader, writer) = TcpStream::connect(address).await.unwrap().into_split();
        let mut client = Self {
            reader,
            writer,
            connection: ClientConnection::new(version, Compression::None),
        };
        let startup = client.connection.startup("3.4.7");
        client.send(0, startup).await;
        assert!(matches!(client.answer().await, Some((0, Response::Ready))));
        client
    }

    pub(crate) async fn send(&mut self, stream: i16, request: Request) {
        let mut bytes = BytesMut::new();
        self.connection.send(stream, request, &mut bytes);
        self.writer.write_all(&bytes).await.unwrap();
    }

    /// The bytes of a request that is not sent.
    pub(crate) fn bytes(&mut self, stream: i16, request: Request) -> BytesMut {
        let mut bytes = BytesMut::new();
        self.connection.send(stream, request, &mut bytes);
        bytes
    }

    /// Sends bytes in the background; the answers meanwhile.
    pub(crate) fn into_answers(self, all: Vec<u8>) -> Answers {
        let mut writer = self.writer;
        let sending = tokio::task::spawn_local(async move {
            writer.write_all(&all).await.unwrap();
            // held open until the answers are read
            std::future::pending::<()>().await;
        });
        Answers {
            reader: self.reader,
            connection: self.connection,
            sending,
        }
    }

    /// The next answer; `None` when the server ended the connection.
    pub(crate) async fn answer(&mut self) -> Option<(i16, Response)> {
        next_answer(&mut self.connection, &mut self.reader).await
    }
}

/// The answers of a client whose requests are being sent.
pub(crate) struct Answers {
    reader: OwnedReadHalf,
    connection: ClientConnection,
    sending: JoinHandle<()>,
}

impl Answers {
    /// The next answer; `None` when the server ended the connection.
    pub(crate) async fn next(&mut self) -> Option<(i16, Response)> {
        next_answer(&mut self.connection, &mut self.reader).await
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

async fn next_answer(
    connection: &mut ClientConnection,
    reader: &mut OwnedReadHalf,
) -> Option<(i16, Response)> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        if let Some(message) = connection.next_message().unwrap() {
            return Some((message.stream, message.response));
        }
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => connection.receive(&buffer[..count]),
        }
    }
}
