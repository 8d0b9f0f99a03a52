//! The `cenote` command as a user runs it: results, bad input, exit codes.
//!
//! Each test runs the built binary on the host backend. Recorded traces come from the folder in
//! CENOTE_TEST_DATA (default ../shared/data); where it is absent those tests say so and pass over.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EVENTS: &str = "phase,t_us,op,id,bytes,stream\n";
const RMM: &str = "Thread,Time,Action,Pointer,Size,Stream\n";
const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

/// A folder for one test's files; gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("cenote-cli-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn cenote() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cenote"));
    command.env("CENOTE_BACKEND", "host");
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the binary runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

/// The command must fail with this code and one line on the error output that holds `words`.
#[track_caller]
fn fails(command: &mut Command, code: i32, words: &str) {
    let output = run(command);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("cenote: ") && message.contains(words), "{message}");
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
}

/// The JSON of a replay that must succeed.
#[track_caller]
fn replay(files: &[&Path], options: &[&str]) -> Value {
    let output = run(cenote().arg("replay").args(files).args(options).arg("--json"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A recorded trace, or None with a line that says why the test cannot run.
fn recorded(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("CENOTE_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let path = root.join("traces").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {name} is not in {} (CENOTE_TEST_DATA names another)", root.display());
    None
}

/// A small history in each text format: two blocks, one reused, one left live at the end.
fn small_traces(folder: &Folder) -> [PathBuf; 3] {
    let events = "pre,0,alloc,1,1048576,0\nrec,1,segment_alloc,0,2097152,0\n\
                  rec,1,alloc,2,4194304,3\nrec,2,free,1,1048576,0\nrec,3,alloc,3,512,0\n";
    let rmm = "1,0,allocate,0x10,4194304,0x0\n1,1,free,0x10,4194304,0\n\
               1,2,allocate failure,(nil),99,0\n1,3,allocate,16,512,140000\n";
    let azure = "2023-11-16 18:15:46.6805900,10,44\n2023-11-16 18:15:50.9951690,20,1\n";
    [
        folder.file("events.csv", format!("{EVENTS}{events}")),
        folder.file("rmm.csv", format!("{RMM}{rmm}")),
        folder.file("azure.csv", format!("{AZURE}{azure}")),
    ]
}

#[test]
fn every_text_format_is_replayed() {
    let folder = Folder::new("formats");
    let paths = small_traces(&folder);
    let json = replay(&paths.each_ref().map(PathBuf::as_path), &["--verify"]);
    let live: Vec<u64> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["peak_live_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(live, [5_242_880, 4_194_304, 54 * 163_840]);
    for file in json["files"].as_array().unwrap() {
        assert_eq!(file["failed"], 0);
        assert_eq!(file["held_after_empty_cache_bytes"], 0);
        assert!(file["ratio"].as_f64().unwrap() >= 1.0, "{file}");
        assert!(file["ns_per_op_median"].is_number() && file["ns_per_op_p99"].is_number());
        let passes = file["passes"].as_array().unwrap();
        assert_eq!(passes.len(), 2);
        for kind in ["create", "map", "set_access", "unmap", "release"] {
            assert!(passes[1]["driver_calls"][kind].is_u64(), "{kind}");
        }
        assert!(passes[0]["driver_calls"]["create"].as_u64().unwrap() > 0);
    }
}

#[test]
fn tables_name_every_trace_and_carry_units() {
    let folder = Folder::new("tables");
    let paths = small_traces(&folder);
    let output = run(cenote().arg("replay").args(&paths).args(["--passes", "3", "--slack", "1%"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for words in ["events.csv", "rmm.csv", "azure.csv", "5.00 MiB", "slack 1%", "host backend"] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert!(output.stderr.is_empty(), "no progress bar off a terminal");
}

#[test]
fn the_report_is_one_file_that_stands_alone() {
    let folder = Folder::new("report");
    let paths = small_traces(&folder);
    let page = folder.0.join("out.html");
    let output = run(cenote().arg("replay").args(&paths).arg("--report").arg(&page));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains(&format!("report: {}", page.display())));
    let html = std::fs::read_to_string(&page).unwrap();
    assert_eq!(html.matches("<svg").count(), 3);
    assert!(!html.contains("http") && !html.contains("<script") && !html.contains("NaN"));
    fails(
        cenote()
            .arg("replay")
            .arg(&paths[0])
            .args(["--json", "--report", "/nonexistent/x.html"])
            .stdout(std::process::Stdio::null()),
        1,
        "/nonexistent/x.html: cannot be written",
    );
}

#[test]
fn a_converted_trace_replays_as_its_source() {
    let folder = Folder::new("convert");
    for path in small_traces(&folder) {
        let out = path.with_extension("cenotetrace");
        let output = run(cenote().args(["trace", "convert"]).arg(&path).arg(&out));
        assert!(output.status.success(), "{}", stderr(&output));
        let json = replay(&[&path, &out], &[]);
        for key in ["operations", "blocks", "streams", "peak_live_bytes", "peak_held_bytes"] {
            assert_eq!(json["files"][0][key], json["files"][1][key], "{key} of {}", path.display());
        }
    }
}

#[test]
fn converting_can_thin_a_trace() {
    let folder = Folder::new("thin");
    let [events, ..] = small_traces(&folder);
    let out = folder.0.join("thin.cenotetrace");
    let options = ["--skip-ops", "1", "--max-ops", "1", "--min-bytes", "1000"];
    let output = run(cenote().args(["trace", "convert"]).arg(&events).arg(&out).args(options));
    assert!(stdout(&output).contains("3 of 4 operations, 2 live before"), "{}", stdout(&output));
    let none = ["--min-bytes", "999999999"];
    fails(
        cenote().args(["trace", "convert"]).arg(&events).arg(&out).args(none),
        2,
        "nothing is left of the trace",
    );
}

#[test]
fn lagging_completions_lose_nothing() {
    let folder = Folder::new("lag");
    let mut rows = String::from(EVENTS);
    for i in 0..2_000u32 {
        rows += &format!("rec,{i},alloc,{i},{},{}\n", 4096 * (1 + i % 300), i % 3);
        if i >= 40 {
            rows += &format!("rec,{i},free,{},0,{}\n", i - 40, i % 3);
        }
    }
    let path = folder.file("lag.csv", rows);
    for lag in ["1", "200", "2000"] {
        let json = replay(&[&path], &["--lag", lag, "--verify"]);
        assert_eq!(json["files"][0]["failed"], 0);
        assert_eq!(json["files"][0]["held_after_empty_cache_bytes"], 0, "lag {lag}");
        assert_eq!(json["lag_ops"].to_string(), lag);
    }
}

#[test]
fn bad_traces_are_named_by_file_and_line() {
    let folder = Folder::new("bad");
    let cases: [(&str, String, &str); 10] = [
        (
            "never.csv",
            format!("{EVENTS}rec,0,free,7,8,0\n"),
            "never.csv:2: frees 0x7, which was never",
        ),
        (
            "negative.csv",
            format!("{EVENTS}rec,0,alloc,7,-8,0\n"),
            "negative.csv:2: column \"bytes\"",
        ),
        ("columns.csv", "phase,t_us,op,id,stream\n".into(), "columns.csv:1: no column \"bytes\""),
        ("short.csv", format!("{EVENTS}rec,0\n"), "short.csv:2: the row has no column"),
        ("rmm.csv", format!("{RMM}1,0,free,0x7,8,0\n"), "rmm.csv:2: frees 0x7"),
        ("rmm2.csv", format!("{RMM}1,0,allocate,zz,8,0\n"), "rmm2.csv:2: column \"Pointer\""),
        ("azure.csv", format!("{AZURE}soon,1,1\n"), "azure.csv:2: time \"soon\""),
        (
            "huge.csv",
            format!("{EVENTS}rec,0,alloc,7,18446744073709551615,0\n"),
            "huge.csv:2: allocates",
        ),
        ("none.txt", "hello\n".into(), "none.txt: no trace that cenote can read"),
        ("empty", String::new(), "empty: the file is empty"),
    ];
    for (name, content, words) in cases {
        let path = folder.file(name, content);
        fails(cenote().arg("replay").arg(&path), 2, words);
        fails(cenote().args(["trace", "convert"]).arg(&path).arg(folder.0.join("o")), 2, words);
    }
}

#[test]
fn hostile_pickles_end_in_one_line() {
    let folder = Folder::new("pickle");
    let mut deep = b"\x80\x04".to_vec();
    deep.resize(1_000_000, b'(');
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("code", b"\x80\x04cos\nsystem\n(S'id'\ntR.".to_vec(), "byte 2: names a class or function"),
        ("cut", b"\x80\x04}\x94(\x8c\x08segments".to_vec(), "the file ends 1 bytes too early"),
        ("length", b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx.".to_vec(), "bytes too early"),
        ("deep", deep, "nested too deeply"),
        ("loop", b"\x80\x04]\x94h\x00a.".to_vec(), "holds itself"),
        ("list", b"\x80\x04].".to_vec(), "not a memory snapshot"),
    ];
    for (name, content, words) in cases {
        let path = folder.file(name, content);
        fails(cenote().arg("replay").arg(&path), 2, words);
    }
}

/// Whatever the bytes are: one line, exit code 2, and never a panic or a signal.
#[test]
fn garbage_never_breaks_the_command() {
    let folder = Folder::new("garbage");
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let starts: [&[u8]; 5] = [b"", b"\x80\x04", b"cenotetr\x01", EVENTS.as_bytes(), RMM.as_bytes()];
    for round in 0..60 {
        let mut content = starts[round % starts.len()].to_vec();
        for _ in 0..(round * 7) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            content.push(state as u8);
        }
        content.push(b'\n');
        let path = folder.file("garbage", &content);
        let output = run(cenote().arg("replay").arg(&path));
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "round {round}: {message}");
        assert_eq!(message.lines().count(), 1, "round {round}: {message}");
    }
}

#[test]
fn bad_command_lines_are_one_line() {
    let folder = Folder::new("usage");
    let [events, ..] = small_traces(&folder);
    let file = events.to_str().unwrap();
    fails(&mut cenote(), 2, "a command is missing");
    fails(cenote().arg("frobnicate"), 2, "frobnicate");
    fails(cenote().arg("replay"), 2, "FILE");
    fails(cenote().args(["replay", "/nonexistent.csv"]), 2, "/nonexistent.csv: cannot be read");
    fails(cenote().args(["replay", "/"]), 2, "/: cannot be read");
    fails(cenote().args(["replay", file, "--slack", "2"]), 2, "slack is a share from 0 to 1");
    fails(cenote().args(["replay", file, "--passes", "0"]), 2, "--passes");
    fails(cenote().args(["replay", file, "--lag", "-1"]), 2, "-1");
    fails(cenote().args(["replay", file, "--backend", "tpu"]), 2, "tpu");
    fails(cenote().args(["replay", file, "--from", "azure"]), 2, "no column \"TIMESTAMP\"");
    fails(cenote().args(["replay", file, "--device", "99"]), 1, "device");
}

#[test]
fn refused_memory_is_a_failed_run() {
    let folder = Folder::new("refused");
    let rows = "rec,0,alloc,1,1048576,0\nrec,1,alloc,2,4611686018427387904,0\n\
                rec,2,free,2,0,0\nrec,3,free,1,0,0\n";
    let path = folder.file("refused.csv", format!("{EVENTS}{rows}"));
    let output = run(cenote().arg("replay").arg(&path).arg("--json"));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("2 allocations were refused, the first: operation 1"), "{message}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["files"][0]["failed"], 2);
    assert_eq!(json["files"][0]["peak_live_bytes"], 1_048_576);
}

#[test]
fn info_shows_backend_devices_and_options() {
    let output = run(cenote().args(["info", "--json"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(info["backend"], "host");
    assert!(!info["devices"].as_array().unwrap().is_empty());
    let options = info["options"].as_array().unwrap();
    let backend = options.iter().find(|o| o["name"] == "backend").expect("the option backend");
    assert_eq!((&backend["value"], &backend["source"]), (&"host".into(), &"environment".into()));
    let text = stdout(&run(cenote().arg("info")));
    for words in ["cenote", "backend   host", "CENOTE_BACKEND", "environment"] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
}

#[test]
fn help_and_version_are_no_failures() {
    for options in [&["--help"][..], &["--version"], &["replay", "--help"], &["trace", "--help"]] {
        let output = run(cenote().args(options));
        assert!(output.status.success() && output.stderr.is_empty(), "{options:?}");
        assert!(!output.stdout.is_empty(), "{options:?}");
    }
}

/// A folder with the fake CUDA driver under the real one's name, or None with the reason.
fn fake_driver(folder: &Folder) -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_cenote")).parent().unwrap();
    let fake = built.join("examples/libfakecuda.so");
    if cfg!(feature = "cuda") && fake.exists() {
        std::fs::copy(fake, folder.0.join("libcuda.so.1")).unwrap();
        return Some(folder.0.clone());
    }
    println!("skipped: {} is not built, or the feature cuda is off", fake.display());
    None
}

#[test]
fn the_cuda_backend_replays_on_streams_of_its_own() {
    let folder = Folder::new("cuda");
    let Some(driver) = fake_driver(&folder) else { return };
    let cuda = || {
        let mut command = cenote();
        command.env("LD_LIBRARY_PATH", &driver).env_remove("CENOTE_BACKEND");
        command
    };
    let mut rows = String::from(EVENTS);
    for i in 0..300u32 {
        let (size, stream) = (1024 * (1 + i * 37 % 4_000), [0, 7, 140_000_000][i as usize % 3]);
        rows += &format!("rec,{i},alloc,{i},{size},{stream}\n");
        if i >= 20 {
            rows += &format!("rec,{i},free,{},0,{stream}\n", i - 20);
        }
    }
    let path = folder.file("streams.csv", rows);
    for lag in ["0", "50"] {
        let options = ["--backend", "cuda", "--device", "0", "--verify", "--json", "--lag", lag];
        let output = run(cuda().arg("replay").arg(&path).args(options));
        assert!(output.status.success(), "lag {lag}: {}", stderr(&output));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&json["backend"], &json["files"][0]["streams"]), (&"cuda".into(), &3.into()));
        assert_eq!(json["files"][0]["held_after_empty_cache_bytes"], 0, "lag {lag}");
    }
    let info = run(cuda().args(["info", "--json"]));
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(info["backend"], "cuda");
    assert!(info["devices"][0]["uuid"].as_str().unwrap().starts_with("GPU-"), "{info}");
}

#[test]
fn a_missing_driver_is_one_line() {
    let empty = Folder::new("nodriver");
    let [events, ..] = small_traces(&empty);
    // An empty driver file stands in for none, so that a driver of this machine is not found.
    empty.file("libcuda.so.1", "");
    let cuda = || {
        let mut command = cenote();
        command.env("LD_LIBRARY_PATH", &empty.0);
        command
    };
    let output = run(cuda().arg("replay").arg(&events).args(["--backend", "cuda"]));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.lines().count() == 1 && message.contains("driver"), "{message}");
    let output = run(cuda().env("CENOTE_BACKEND", "cuda").args(["info", "--json"]));
    assert_eq!(output.status.code(), Some(1));
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(info["backend"].is_null() && info["error"].is_string(), "{info}");
}

/// A recorded trace, the most that its ratio may be, and whether its second pass must be silent.
const BARS: [(&str, f64, bool); 10] = [
    ("gpt-medium-ctx128-train.trace.csv", 1.01, true),
    ("gpt-medium-ctx512-train.trace.csv", 1.01, true),
    ("gpt-medium-ctx256-infer.trace.csv", 1.01, false),
    ("gpt-medium-ctx256-infer.snapshot.pickle", 1.01, false),
    ("gpt-medium-ctx1024-infer.trace.csv", 1.01, false),
    ("coldstart-small.trace.csv", 1.01, false),
    ("coldstart-small.snapshot.pickle", 1.01, false),
    ("gpt-small-ctx128-fwd-fp32.trace.csv", 1.03, false),
    ("gpt-small-ctx128-fwd-fp32.snapshot.pickle", 1.03, false),
    ("AzureLLMInferenceTrace_conv_2023.csv", 1.05, false),
];

/// What of its bars a recorded trace misses.
fn misses(name: &str, path: &Path, most: f64, silent: bool) -> Vec<String> {
    let json = replay(&[path], &["--verify"]);
    let file = &json["files"][0];
    let second = &file["passes"][1];
    let calls: u64 =
        second["driver_calls"].as_object().unwrap().values().map(|c| c.as_u64().unwrap()).sum();
    let per_alloc = second["driver_calls_per_alloc"].as_f64().unwrap();
    let ratio = file["ratio"].as_f64().unwrap();
    println!("{name}: ratio {ratio}, {calls} driver calls in the second pass");
    let checks = [
        (ratio <= most, format!("ratio {ratio}, at most {most}")),
        (!silent || calls == 0, format!("{calls} driver calls in the second pass")),
        (
            !name.starts_with("Azure") || per_alloc <= 0.5,
            format!("{per_alloc} driver calls an allocation in the second pass"),
        ),
        (file["failed"] == 0, "refused allocations".into()),
        (file["held_after_empty_cache_bytes"] == 0, "bytes held at the end".into()),
    ];
    checks.into_iter().filter(|(met, _)| !met).map(|(_, what)| format!("{name}: {what}")).collect()
}

#[test]
fn recorded_traces_keep_their_bars() {
    let missed: Vec<String> = BARS
        .iter()
        .filter_map(|(name, most, silent)| Some((name, recorded(name)?, most, silent)))
        .flat_map(|(name, path, most, silent)| misses(name, &path, *most, *silent))
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_small_slack_holds_the_serving_trace_tight() {
    let Some(path) = recorded("AzureLLMInferenceTrace_conv_2023.csv") else { return };
    let json = replay(&[&path], &["--from", "azure", "--slack", "0.01"]);
    let ratio = json["files"][0]["ratio"].as_f64().unwrap();
    assert!(ratio <= 1.01, "ratio {ratio}");
}

#[test]
fn recorded_traces_survive_late_completions() {
    for name in ["gpt-medium-ctx128-train.trace.csv", "AzureLLMInferenceTrace_conv_2023.csv"] {
        let Some(path) = recorded(name) else { continue };
        for lag in ["200", "2000"] {
            let json = replay(&[&path], &["--lag", lag, "--verify"]);
            let file = &json["files"][0];
            println!("{name}, {lag} operations late: ratio {}", file["ratio"]);
            assert_eq!(file["failed"], 0, "{name}, lag {lag}");
            assert_eq!(file["held_after_empty_cache_bytes"], 0, "{name}, lag {lag}");
        }
    }
}

#[test]
fn a_snapshot_and_its_event_list_are_the_same_trace() {
    let names = ["coldstart-small", "gpt-medium-ctx256-infer", "gpt-small-ctx128-fwd-fp32"];
    for name in names {
        let (snapshot, events) = (format!("{name}.snapshot.pickle"), format!("{name}.trace.csv"));
        let (Some(snapshot), Some(events)) = (recorded(&snapshot), recorded(&events)) else {
            continue;
        };
        let json = replay(&[&snapshot, &events], &["--passes", "1"]);
        for key in ["operations", "blocks", "streams", "peak_live_bytes"] {
            assert_eq!(json["files"][0][key], json["files"][1][key], "{key} of {name}");
        }
    }
}
