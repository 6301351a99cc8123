//! Apache Cassandra's jars, the JVM options they need, and its offline tools.

use super::child::{cache, output};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that every comparison is made with.
pub const VERSION: &str = "5.0.5";

/// Packages that Cassandra 5.0 needs exported to it on Java 17 (its `conf/jvm17-server.options`).
const EXPORTS: &[&str] = &[
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];

/// Packages that it reads by reflection.
const OPENS: &[&str] = &[
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.util",
    "java.base/java.nio",
    "java.base/java.net",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "jdk.management/com.sun.management.internal",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.management.jfr/jdk.management.jfr",
];

/// The folder that holds the jars and the generated configurations.
pub fn folder() -> Result<PathBuf> {
    Ok(cache()?.join(format!("cassandra-{VERSION}")))
}

/// JVM options for any of its programs.
pub fn options() -> Vec<String> {
    let exports = EXPORTS
        .iter()
        .map(|name| format!("--add-exports={name}=ALL-UNNAMED"));
    exports
        .chain(
            OPENS
                .iter()
                .map(|name| format!("--add-opens={name}=ALL-UNNAMED")),
        )
        .collect()
}

/// The folder of jars, fetched with Maven when it is not there.
pub fn jars() -> Result<PathBuf> {
    let folder = folder()?;
    let jars = folder.join("lib");
    if jars.join(format!("cassandra-all-{VERSION}.jar")).exists() {
        return Ok(jars);
    }
    eprintln!(
        "fetching Apache Cassandra {VERSION} from Maven Central (66 MB, once) into {}",
        jars.display()
    );
    // two tests may come here at once: each fetches into its own folder, and the first rename wins
    let partial = folder.join(format!("lib.partial-{}", std::process::id()));
    std::fs::create_dir_all(&partial)?;
    let pom = partial.join("pom.xml");
    std::fs::write(
        &pom,
        pom_xml(&[("org.apache.cassandra", "cassandra-all", VERSION)]),
    )?;
    maven(&pom, &partial)?;
    std::fs::remove_file(&pom)?;
    if std::fs::rename(&partial, &jars).is_err() {
        std::fs::remove_dir_all(&partial)?;
    }
    if !jars.join(format!("cassandra-all-{VERSION}.jar")).exists() {
        bail!(
            "Maven ended well but {} has no cassandra-all-{VERSION}.jar",
            jars.display()
        );
    }
    Ok(jars)
}

/// A Maven project that has only dependencies.
pub fn pom_xml(artifacts: &[(&str, &str, &str)]) -> String {
    use std::fmt::Write as _;
    let mut pom = String::from(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>helenus</groupId><artifactId>jars</artifactId><version>1</version><dependencies>",
    );
    for (group, artifact, version) in artifacts {
        write!(pom, "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>")
            .expect("a string takes all that is written");
    }
    pom + "</dependencies></project>"
}

/// Copy the dependencies of a project into a folder.
pub fn maven(pom: &Path, into: &Path) -> Result<()> {
    let mut command = Command::new("mvn");
    command
        .args(["-q", "-B", "-f"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", into.display()));
    output(&mut command).context("fetch jars with Maven (mvn and Java 17 are needed)")?;
    Ok(())
}

/// Run one of Cassandra's main classes with a configuration folder and return what it printed.
pub fn run(main: &str, conf: &Path, arguments: &[&str]) -> Result<String> {
    let quiet = conf.join("quiet.xml");
    if !quiet.exists() {
        std::fs::write(
            &quiet,
            "<configuration><root level=\"OFF\"/></configuration>",
        )?;
    }
    let mut command = Command::new("java");
    command
        .arg("-Xmx512M")
        .arg("-XX:TieredStopAtLevel=1")
        .args(options());
    command.arg(format!(
        "-Dlogback.configurationFile=file://{}",
        quiet.display()
    ));
    if conf.join("cassandra.yaml").exists() {
        command.arg(format!(
            "-Dcassandra.config=file://{}/cassandra.yaml",
            conf.display()
        ));
    }
    command
        .arg("-cp")
        .arg(format!("{}:{}/*", conf.display(), jars()?.display()))
        .arg(main)
        .args(arguments);
    output(&mut command)
}

/// Run one of Cassandra's offline tools (`sstabledump`, `sstablemetadata`, `sstableverify`, …) and return what it printed.
///
/// `sstableverify`, `sstablescrub` and `sstableupgrade` take a keyspace and a table, found by the schema tables of a data
/// folder: run those with [`super::Cassandra::offline_tool`] on a stopped node.
pub fn tool(name: &str, arguments: &[&str]) -> Result<String> {
    run(&tool_class(name)?, &tools_configuration()?, arguments)
}

/// The class behind a tool's name.
pub fn tool_class(name: &str) -> Result<String> {
    let class = match name {
        "sstabledump" => "SSTableExport",
        "sstablemetadata" => "SSTableMetadataViewer",
        "sstableverify" => "StandaloneVerifier",
        "sstablescrub" => "StandaloneScrubber",
        "sstableupgrade" => "StandaloneUpgrader",
        "sstableutil" => "StandaloneSSTableUtil",
        "sstablesplit" => "StandaloneSplitter",
        other => bail!("no offline tool is called {other}"),
    };
    Ok(format!("org.apache.cassandra.tools.{class}"))
}

/// Offline tools refuse to run without a configuration; this one names folders that nobody uses.
fn tools_configuration() -> Result<PathBuf> {
    let conf = folder()?.join("tools");
    let yaml = conf.join("cassandra.yaml");
    if yaml.exists() {
        return Ok(conf);
    }
    std::fs::create_dir_all(&conf)?;
    let root = conf.display();
    let text = format!(
        "cluster_name: tools\nnum_tokens: 16\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
         data_file_directories: [{root}/data]\ncommitlog_directory: {root}/commitlog\nsaved_caches_directory: {root}/caches\n\
         hints_directory: {root}/hints\ncdc_raw_directory: {root}/cdc\ncommitlog_sync: periodic\n\
         commitlog_sync_period: 10000ms\nlisten_address: localhost\nendpoint_snitch: SimpleSnitch\n\
         storage_compatibility_mode: NONE\nseed_provider:\n\
         \x20 - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters: [{{seeds: localhost}}]\n"
    );
    // written aside and renamed, so that a test beside us never reads half a file
    let partial = conf.join(format!("cassandra.yaml.{}", std::process::id()));
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, &yaml)?;
    Ok(conf)
}
