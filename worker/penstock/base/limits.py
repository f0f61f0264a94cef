"""Every bound of the engine, with its name, its unit and its reason.

Relations between bounds are asserted at import, so a change of one number cannot silently break
another one.
"""

# --- Key groups -----------------------------------------------------------------------------
KEY_GROUPS_DEFAULT = 256
LOAD_GROUPS_MAX = 256  # groups of a step in the manifest of a task that says how many rows it sent to them
KEY_GROUPS_MAX = 32_768  # a group fits the two bytes that begin every state key
HASH_SEED = 42  # the seed of xxhash64 in Spark SQL

# --- Size of a job --------------------------------------------------------------------------
WORKERS_MAX = 1024
JOB_NAME_CHARS_MAX = 40
STAGE_TASKS_MAX = 4096  # tasks that a job may ask for in one stage
STEPS_MAX = 256
SPLITS_TOLD_MAX = 64  # splits whose pending rows a status and the metrics of a worker name; a step has the sum of all
SPLITS_MAX = 40_000  # each split of Parquet files takes up to 290 bytes in the message to the leader

# --- Control plane --------------------------------------------------------------------------
LATEST_BYTES_MAX = 64 * 1024  # size of -latest; a ConfigMap may hold 1 MiB. Larger things are on the volume
CONTROL_MESSAGE_BYTES_MAX = 16 * 1024 * 1024
CONTROL_CALL_TIMEOUT_S = 5.0
SPLITS_BYTES_MAX = 12 * 1024 * 1024  # size of the description of all splits; one message carries it
KEEPALIVE_S = 2.0  # a call that hears nothing for so long asks whether the connection still lives
KEEPALIVE_TIMEOUT_S = 5.0  # without an answer the connection is given up, and another one dialled
HEARTBEAT_INTERVAL_S = 0.5
HEARTBEAT_TIMEOUT_S = 5.0  # a member that sent nothing for this long is lost
ENGINE_SILENCE_TIMEOUT_S = 60.0  # user code may hold the GIL, so this is much longer than a lease
LEASE_DURATION_S = 15.0
LEASE_RENEW_DEADLINE_S = 10.0
LEASE_RETRY_S = 2.0
LOCAL_LEASE_DURATION_S = 5.0  # shorter than in a cluster, because no API server can be slow or away
LOCAL_LEASE_RENEW_DEADLINE_S = 3.5
LOCAL_LEASE_RETRY_S = 1.0
META_POLL_INTERVAL_S = 2.0  # a watch reports most changes earlier; in a pod it reports only -desired
SWAP_TRIES_MAX = 64  # tries of one swap, all with unknown outcome, before a leader gives up
LOCAL_META_POLL_INTERVAL_S = 10.0  # on one machine a watch reports every change, and each read costs two processes
META_RETRY_INTERVAL_S = 0.5  # wait after the metadata store did not answer
WATCH_WAIT_S = 4.0  # longest wait of a call that is answered as soon as something was written
RESEND_INTERVAL_S = 0.5  # a command or acknowledgement is repeated while its effect does not show
READY_TIMEOUT_S = 60.0
PREPARE_TIMEOUT_S = 60.0
PREPARED_ALONE_S = 2.0  # no periodic epoch begins so early in a rescale's preparation: the rescale would wait for it
RESCALE_TIMEOUT_S = 1200.0  # for the barrier of a rescale. It is long, because users add workers to overloaded jobs
RETAINED_CHECKPOINTS_DEFAULT = 3
RETAINED_CHECKPOINTS_MAX = 64
PERIODIC_SNAPSHOTS_DEFAULT = 7
PERIODIC_SNAPSHOTS_MAX = 1000
SAVEPOINTS_UNDER_WAY_MAX = 8
COPY_TRIES_MAX = 3  # tries to copy a savepoint; then its request is answered with the reason
ANSWERS_MAX = 32  # requests that are considered at a time
LOST_MAX = 64  # lost workers that -latest names at a time; the others follow
FAILURE_BYTES_MAX = 4_000  # size of the failure text in -latest, as it is encoded there
USER_MESSAGE_CHARS_MAX = 300  # length of the message of a user's exception
USER_VALUE_CHARS_MAX = 60  # length of one value of a record in an error
USER_RECORD_CHARS_MAX = 400  # length of all values of a record in an error
GUESSED_FRAMES_MAX = 4  # innermost frames of the user whose variables may show which row raised
GUESSED_VALUES_MAX = 16  # values of an exception and of these variables that are looked for among the rows
WRONG_GUESSES_MAX = 8  # wrong guesses one after another; then rows at fault are searched for by halving the batch
BAD_VALUES_WATCHED_MAX = 4  # values of many rows at fault that are looked for in each batch
BAD_VALUES_KEPT_MAX = 8  # newest rows at fault that are kept, to see whether a value comes again
BAD_VALUES_IN_VAIN_MAX = 32  # rows at fault without a repeated value; after them only few rows are examined
BAD_VALUES_ASKED_EACH = 16  # then one of this many rows at fault is examined
BAD_VALUE_ROWS_MAX = 524_288  # after this many rows without a watched value it is no longer looked for
SLICED_ROWS_MAX = 8  # so many refused rows of a batch are cut out one by one; more are cut out by one call
USER_TRACE_FRAMES_MAX = 12  # frames of the user that are shown; of more frames the first and the last half
USER_TRACE_CAUSES_MAX = 3  # exceptions of one chain whose frames are shown
USER_TRACE_CHARS_MAX = 1_100  # length of all frames; the whole text fits into the status of a StreamJob
TEXT_BYTES_MAX = 400  # size of any other text in -latest
SCHEMES_MAX = 32  # schemes of a step, and steps with schemes
BALANCED_STEPS_MAX = 32  # steps in -latest of which it says how their key groups were balanced
REFUSED_MAX = 8  # schemes in -latest that are asked for and cannot be
LOST_OUTPUT_MAX = 16  # epochs in -latest whose output was dropped on request
COLLECT_INTERVAL_S = 30.0
COLLECT_BATCH_MAX = 1_000  # names that one action deletes
RESTART_BACKOFF_FIRST_S = 0.2
RESTART_BACKOFF_MAX_S = 30.0
RESTARTS_BEFORE_STALLED = 10
RESTART_ATTEMPTS_DEFAULT = 10  # restarts after deaths within the window; the next death fails the job
RESTART_ATTEMPTS_MAX = 1_000  # within a window. More than one death a second is not worth a restart
RESTART_WINDOW_S_DEFAULT = 600.0
DEATH_BYTES_MAX = 1_500  # size of the text of a death in -latest
DEATHS_KEPT_MAX = 4  # newest deaths in -latest; a reader that looks every half second misses none

# --- Processes of one worker ----------------------------------------------------------------
KEEPER_INBOX_MAX = 10_000  # more messages are refused, and their senders repeat them
KEEPER_LANE_MAX = 10_000  # actions under way; the cores ask for a few at a time
MESSAGE_QUEUE_MAX = 1_000  # messages that wait for one peer; more are dropped, and repeated later
PEER_SENDER_IDLE_S = 60.0  # a sender without messages for this long ends: its incarnation is over, or reports by itself
LAST_CHECKPOINT_WAIT_S = 10.0  # how long a stop waits for the checkpoint under way; one of gigabytes takes longer
PAGE_REQUEST_TIMEOUT_S = 5.0  # for a whole request to the page of probes and metrics
PAGE_CALLERS_MAX = 32  # callers of that page at a time, each with a thread; a newer caller replaces the oldest
FORK_REQUEST_TIMEOUT_S = 5.0  # for the request of a keeper that has connected
FORK_BEGIN_TIMEOUT_S = 60.0  # for a fork server to begin an engine: it may have to load first, on a busy machine
ENGINE_EXIT_GRACE_S = 2.0  # for an engine that was told to end; then it is killed
ENGINE_FIRST_WORD_S = 600.0  # until the first message of a new engine, which loads and may compile every kernel
ENGINE_LAST_LINES_MAX = 20  # last lines of standard error that explain the death of an engine
LOG_TAIL_BYTES_MAX = 16 * 1024  # last part of a worker's log in which these lines are looked for
ENGINE_END_CHARS_MAX = 3_000  # length of the text that says how an engine ended
IN_FLIGHT_SLOTS_MAX = 64  # tasks of one engine that can show what they work on
IN_FLIGHT_NAMED_MAX = 8  # tasks that the text of a death names
RETIRE_TIMEOUT_S = 5.0  # for a keeper that is asked to end, whatever still waits
ANNOUNCE_INTERVAL_S = 1.2  # between reports of a keeper whose engine sends nothing; counters are passed on at once
ANSWERS_KEPT_MAX = 1_000  # answers to requests that are kept for clients which ask later
SOUND_LIFE_S = 10.0  # a keeper that lived this long is started again at once
SUPERVISOR_LOOK_INTERVAL_S = 1.0  # events wake the supervisor earlier
SILENT_KEEPER_S = 4.0  # a keeper that is silent for this long is ended by force, if the leader has given its engine up
SUPERVISOR_LINGER_S = 1.0  # after the end of the job, for clients that wait for an answer
SUPERVISOR_TIMEOUT_S = 10.0  # a keeper that has no supervisor for this long ends, because it could commit nothing

# --- Pods ---------------------------------------------------------------------------------------
STATUS_BYTES_MAX = 900 * 1024  # size of -status; a ConfigMap may hold 1 MiB
STATUS_TEXT_CHARS_MAX = 200  # length of a reason in a status that would be larger
POD_STATUS_INTERVAL_S = 5.0  # between writes of counters to the status ConfigMap; events are written at once
LOAD_WINDOW_S = 15.0  # over which a leader averages how busy the job's tasks are
LOAD_HEARD_S = 5.0  # no window ends while a worker has reported nothing for this long
LOAD_WINDOWS_KEPT = 80  # 20 minutes; an autoscaler looks back no further
SILENT_WORKERS_KEPT_S = 300.0  # how long the summary of a job shows a worker that reports nothing
TRUST_LOOK_INTERVAL_S = 10.0  # between looks at mounted certificates; the kubelet takes up to two minutes
KEEPER_DIAL_INTERVAL_S = 0.2  # between attempts of an engine's host to reach a keeper that is not there yet
LOOP_STUCK_S = 30.0  # a keeper whose loop made no pass for this long is dead
HOST_ABSENT_S = 60.0  # an engine's container that has no host for this long is started again
DRAIN_PUBLISH_S = 2.0  # how long a leaving worker waits until committed output is visible
DRAIN_STILL_S = 10.0  # how long a leaving worker waits when nothing leads to its last epoch
DRAIN_UNREAD_S = 3.0  # how long a leaving worker may fail to read -latest; then its job is deleted
GRACE_RESERVE_S = 10.0  # part of a pod's grace period that stays for the end after the last checkpoint

# --- Data plane -----------------------------------------------------------------------------
ELEMENT_BYTES_MAX = 64 * 1024 * 1024  # size of one decoded element; larger input is split at the source
ELEMENT_FIXED_CHARGE_BYTES = 512  # what an element costs in addition to its body
CHANNEL_CREDIT_BYTES_DEFAULT = 8 * 1024 * 1024  # high watermark of a channel's queue
CHANNEL_LOW_WATERMARK_BYTES_DEFAULT = 4 * 1024 * 1024
CREDIT_FIRST_BYTES = 16 * 1024  # credit of a task before it is known what a row costs it
CREDIT_FIRST_CHANNEL_BYTES_MIN = 4 * 1024  # least first credit of each channel; smaller elements cost more
CREDIT_CHANGE_INTERVAL_S = 0.1  # credit is doubled at most once in this time
TASK_CREDIT_BYTES_MAX = 16 * 1024 * 1024  # credit of all channels that bring rows
QUEUED_S = 0.25  # work that the channels of a task hold together; half of what a barrier may wait, see SLICE_S
CHANNEL_FLOOR_S = 0.01  # work that each channel may hold at least
CHANNEL_ACTIVE_S = 0.5  # a channel that brought no rows for this long shares no credit
PACE_SUM_S = 0.25  # work over which a pace is measured
ANSWER_RATE_S = 1.0  # time over which rows are counted that are taken as answers come
PACE_SEEN_S = 0.02  # work after which a new sum replaces the earlier one
PACE_KEEPS = 0.9  # weight of earlier calls in the estimate of a call's fixed cost, for each further call
SLICE_S = 0.1  # work in a slice: a barrier waits until the task has processed one slice
SLICE_ROWS_PER_FIXED_COST = 4  # factor of a slice's size where calls cost much and rows little
SLICE_BYTES_MAX = 1024 * 1024  # size of a slice that is larger because of the fixed cost of calls
SLICE_FIRST_ROWS = 16  # rows of the first call, which shows what a row costs
SHED_SLICE_ROWS_MAX = 256  # rows of a node between two looks at what is outstanding: half a millisecond of its work
OUTPUT_BUFFER_BYTES_DEFAULT = 1024 * 1024
SOURCE_BATCH_ROWS_DEFAULT = 8192  # rows a source reads at once; Python costs are per batch
SOURCE_BATCH_ROWS_MAX = 1_000_000
SOURCE_JOINED_READ_S = 0.008  # work of a source's thread on one batch that is joined from reads
SOURCE_JOINED_READ_BYTES = 8 * 1024 * 1024  # size of such a batch, if its rows are divided among many receivers
SOURCE_JOINED_READ_ROWS_MAX = 65_536  # more rows gain nothing: the fixed cost of a batch is below 1 % then
OUTPUT_FLUSH_INTERVAL_S_DEFAULT = 0.005
SENDER_THREADS = 2
COMPRESSION_SAMPLE_BYTES = 64 * 1024
COMPRESSION_SAMPLE_EVERY_BYTES = 64 * 1024 * 1024  # then entropy is measured again, because the rows may have changed
COMPRESSION_BATCH_BYTES_MIN = 4096  # smaller batches gain less than the schema costs that they carry
COMPRESSION_AUTO_BATCH_BYTES_MIN = 64 * 1024  # smaller batches measure the call and not the link
COMPRESSION_TRY_AFTER_BYTES = 16 * 1024 * 1024
COMPRESSION_TRY_AFTER_BYTES_MAX = 4 * 1024 * 1024 * 1024  # trials are then 0.4 % of the bytes
COMPRESSION_TRY_SHARE = 20  # a pause that ends by time is this many times as long as its trial
COMPRESSION_TRY_AFTER_S_MAX = 60.0  # time of sending; on a slow link the bytes alone would take an hour
COMPRESSION_TRY_BYTES = 10 * 1024 * 1024
COMPRESSION_SKIPPED_BYTES = 6 * 1024 * 1024  # not measured at a trial's start: buffers of sockets take them at once
COMPRESSION_STALLED_BYTES_PER_S = 1024 * 1024  # a lower rate comes from a receiver that rests, not from the link
COMPRESSION_RATE_BYTES = 32 * 1024 * 1024  # bytes over which a rate is measured
SENDS_PER_PUMP_MAX = 16  # elements of one channel that a sender thread sends before it looks at the next channel
LATENCY_MARK_INTERVAL_S = 0.0043  # of a paced split. Each mark is a message. It is no multiple of the flush interval
LATENCY_MARKS_PER_READ_MAX = 64
JOINED_BYTES_MAX = 512 * 1024  # queued elements that a task takes as one, because steps cost per batch
CREDIT_DELAY_S = 0.02  # small grants of all channels between two workers wait this long to share a message
CREDITS_PER_MESSAGE_MAX = 1024
CONTROLS_WAITING_MAX = 1024  # control elements of one channel that wait behind its data
HELD_STREAMS_MAX = 4096  # streams of an attempt or a version that this worker has not reached yet
STREAM_UNACKNOWLEDGED_S = 20.0  # a connection to a peer is given up when the peer's system confirms nothing for so long
STREAM_PING_S = 400.0  # a connection that hears nothing asks; more often than every 300 s, and a Flight server ends it
STREAM_UNWATCHED_S = 2.0  # a call that its receiver has not accepted by then gets a thread that waits for its end
STREAM_CHECK_INTERVAL_S = 0.5  # a waiting handler checks this often whether its caller is still there
HELD_WINDOWS = 4  # windows of a receiver that has not announced its version: so much may be held for it
HELD_BYTES_MIN = 4 * 1024  # whatever the windows are; each of many senders may hold this much
HELD_BYTES_MAX = 64 * 1024 * 1024  # records of moving groups held by one sender task
LISTEN_TRIES = 200  # tries of a server that replaces one which has just stopped listening
LISTEN_PAUSE_S = 0.01  # between two of these tries
ORPHAN_HANDLERS_MAX = 64  # with more orphans the engine restarts
WRITE_CANCEL_DEADLINE_S = 5.0
RESET_DEADLINE_S = 30.0  # a task thread that has not ended by then ends its process
TASK_INBOX_MAX = 1024

FREED_BYTES_KEPT = 64 * 1024 * 1024  # in each heap of the C library, for the next messages

# --- Connectors -----------------------------------------------------------------------------
SOURCE_READ_BYTES_MAX = 8 * 1024 * 1024  # size of one read, unless a single row is larger
TEXT_BLOCK_BYTES = 1 << 20  # of a text file, read at once
TEXT_LINE_BYTES_MAX = 16 << 20  # a longer line is an error
INGEST_QUEUE_BYTES_MAX = 4 * 1024 * 1024  # queue of one partition; when it is full the sender waits
INGEST_BATCH_BYTES_MAX = 16 * 1024 * 1024  # size of one unpacked batch, and of a stream's dictionaries
INGEST_BATCH_ROWS_MAX = 1024 * 1024  # rows of one batch, because columns of nulls take no bytes
INGEST_MESSAGE_BYTES_MAX = 17 * 1024 * 1024  # size of a message with a batch; it also lists the buffers
INGEST_CHARGE_BYTES_MIN = 8 * 1024  # least charge of a batch or dictionary in that queue; small ones cost more
INGEST_STREAMS_SPARE = 64  # beyond two for each partition: for senders at the wrong worker, which get the right address
INGEST_HELLO_TIMEOUT_S = 10.0  # for the first message of a sender that has opened a stream
INGEST_LINGER_S = 10.0  # for a sender to read why its stream ends, and to close it
INGEST_WAIT_S = 0.5  # a waiting handler checks this often whether it should still wait
GENERATOR_BLOCK_BYTES_MAX = 1024 * 1024 * 1024
INPUT_LOOK_INTERVAL_S = 5.0  # between two looks for files that are in no checkpoint
INPUT_LOOK_SHARE = 100  # a pause is this many times as long as the look before it, which is 1 % of a processor
INPUT_NAMES_SHOWN_MAX = 5  # names of files in a message; the others are counted
SOURCE_SPLITS_READ_MAX = 16  # splits of a source task that hold memory while they are read; the others wait for a place
SOURCE_POLL_S = 0.002  # shortest sleep of a source when a split has no rows and cannot say until when
SOURCE_POLL_SHARE = 1 / 16  # of the time without rows: such a sleep grows with it. Rows wait this much longer at most
SOURCE_REST_MAX_S = 0.1  # longest sleep of a source; a split that falls silent is noticed at most this late
PACE_WAIT_MAX_S = 0.01  # longest wait for rows of a paced split, where the work on the last rows took longer
PACE_READ_ROWS = 64  # rows of a paced split that are read at once when they are due soon
PACE_REST_MAX_S = 0.05  # what "soon" means: a row of a slow pace waits this long for others
PACE_WAIT_S = 0.001  # shortest wait for rows of a paced split; a shorter one means more calls per row
SINK_PART_BYTES = 32 * 1024 * 1024  # rows of one staged file, in memory until it is durable
SINK_FOLDERS_MAX = 1_000  # of one task, with rows in memory: each is a file
SINK_BUFFER_BYTES_MAX = 96 * 1024 * 1024  # with more rows a sink has no room and its task waits
SINK_FULL_TOLD_S = 5.0  # a sink that has no room for so long is named in the status; shorter waits are backpressure
SINK_STAGED_BYTES_MAX = 256 * 1024 * 1024  # rows that a task stages for a sink while output cannot be published

# --- State and checkpoints ------------------------------------------------------------------
STATE_MEMORY_BYTES_DEFAULT = 1024 * 1024 * 1024
CHECKPOINT_INTERVAL_S_DEFAULT = 10.0
CHECKPOINT_TIMEOUT_S_DEFAULT = 600.0
CHECKPOINT_FIRST_DELAY_S = 0.2  # the first output should not wait for a whole interval
# A status says that a checkpoint is late after some intervals and this time. Nothing else follows from it.
CHECKPOINT_LATE_INTERVALS = 3
CHECKPOINT_LATE_S = 20.0
STATE_TABLE_ROWS_MIN = 1024  # of each table in memory, however small its budget is
STATE_FILES_PER_TASK_MAX = 16  # more files are merged; this bounds what a restore reads
EVENT_TIME_US_MAX = 1 << 61  # from 1970, in both directions: sums of such times never overflow
FIRED_ROWS_MAX = 8_192  # windows that are emitted as one batch; the next slice waits until they have left
FIRED_SLIDING_ROWS_MAX = 4_096  # the same for sliding windows, each of which is combined from many slices
FIRED_TIMERS_MAX = 1_024  # timers whose functions Python calls at once: some ten milliseconds
FIRED_ENDS_MAX = 32  # ends of sliding windows that fire at once; each costs a part of a millisecond
WINDOW_SLICES_MAX = 4_096  # slices of a sliding window: its length divided by its slide
PAGE_SLICES_MAX = 16  # slices of a key that share a state row: a change of one writes them all to the next checkpoint
WINDOW_ROWS_MAX = 1_000_000_000  # rows of a window that ends by their number
TOP_ROWS_MAX = 1_000  # rows that a top step keeps for a key: a change of one writes them all to the next checkpoint
JOIN_WINDOWS_MAX = 8_192  # windows of a join that are looked at for one slice of FIRED_ROWS_MAX pairs
JOIN_TABLE_BUCKET_US = 10_000_000  # rows of a key in so much time wait for the table together
JOIN_VERSIONS_PRUNED = 16  # versions of a key from which on old ones are looked for, as a batch copies all of them
JOIN_SIDE_ROWS_MAX = 1_000_000  # rows of one side that a join keeps for one key and window
SIDE_ROWS_MAX = 100_000  # rows of a side table: each task has all of them as Python objects
WHOLE_ROWS_MAX = 1_000_000  # rows that a window of a key keeps for a function
WHOLE_SLICE_ROWS = 262_144  # rows of windows that are in memory for their functions at once; one window may have more
WHOLE_SLICE_BYTES = 256 * 1024 * 1024  # about the bytes of these rows; of those that are larger, fewer
WHOLE_SLICE_BUCKETS = 65_536  # buckets of rows that are looked up at once
CALLS_MAX = 10_000  # asynchronous calls of a step that one task makes at once
CALL_ROWS_MAX = 10_000  # rows that one asynchronous call asks for
LOOKUP_CALLS_MAX = 32  # queries of a lookup that one task makes at once, each by a connection of its own
LOOKUP_WAIT_S_MAX = 5.0  # the wait before a query is made again grows up to this while a server is away
LOOKUP_SILENT_S = 10.0  # a query without an answer for so long is told in the status
LOOKUP_TRIES_MAX = 5  # of a query in a process that has nobody to wait for it
CALLS_END_S = 5.0  # how long a task that ends waits for its cancelled calls
RETRIES_MAX = 100
RETRY_WAIT_S_MAX = 60.0  # the wait before a repeated call grows up to this
CACHE_ROWS_MAX = 10_000_000
JOIN_BUCKET_US_MIN = 1_000  # rows of a shorter time are stored together by an interval join
# Rows of state files that are in memory at once when files are merged, migrated or exported: decompressed, in bytes.
# All rows of one key group are, however many they are.
STATE_MERGE_BYTES_MAX = 32 * 1024 * 1024
STATE_BLOCK_BYTES_MAX = 1024 * 1024  # rows in a block of a state file, decompressed; one row may be more
MANIFEST_BYTES_MAX = 64 * 1024 * 1024

# --- Records and states that users declare -----------------------------------------------------
RECORD_FIELDS_MAX = 1024  # as many as columns of a step
RING_WIDTH_MAX = 65_536  # values of one ring; each key has memory for all of them
ENUM_VALUES_MAX = 32_767  # a code fits two bytes
ENTRIES_DEFAULT = 1_000_000  # of a list, map, set or timers, for each key
ENTRIES_MAX = 1 << 40
RECORD_DEPTH_MAX = 16  # records, tuples and lists within each other

# --- JSON from outside ----------------------------------------------------------------------
JSON_BYTES_MAX = MANIFEST_BYTES_MAX  # nothing that is read is larger
API_ANSWER_BYTES_MAX = 512 * 1024 * 1024  # an answer of the API server: a page has 500 objects of at most 1 MiB
API_DEPTH_MAX = 10_100  # the API server takes objects 10,000 levels deep, and a list is around them
JSON_DEPTH_MAX = 64  # lists and objects in each other; the deepest of ours, a pod's template, has about 15

assert LEASE_RETRY_S < LEASE_RENEW_DEADLINE_S < LEASE_DURATION_S, "a leader stops before its Lease expires"
assert HEARTBEAT_TIMEOUT_S < DRAIN_STILL_S, "a member's death is known before the wait is over"
assert ANNOUNCE_INTERVAL_S * 3 < SILENT_KEEPER_S < HEARTBEAT_TIMEOUT_S, "one lost report is no silence"
assert CONTROL_CALL_TIMEOUT_S <= KEEPALIVE_TIMEOUT_S, "a connection is given up when no call got an answer"
assert WATCH_WAIT_S < CONTROL_CALL_TIMEOUT_S, "a watch is answered in time"
assert META_POLL_INTERVAL_S < DRAIN_UNREAD_S, "one failed read does not end a worker"
assert HEARTBEAT_TIMEOUT_S * 2 < PEER_SENDER_IDLE_S, "a peer keeps its thread between heartbeats"
assert SPLITS_BYTES_MAX < CONTROL_MESSAGE_BYTES_MAX < MANIFEST_BYTES_MAX, "the orders that carry splits fit, too"
assert HEARTBEAT_INTERVAL_S * 4 < HEARTBEAT_TIMEOUT_S, "one lost heartbeat is not a death"
assert HEARTBEAT_TIMEOUT_S + LEASE_RENEW_DEADLINE_S <= LEASE_DURATION_S, "losses are seen before a Lease ends"
assert HEARTBEAT_TIMEOUT_S < ENGINE_SILENCE_TIMEOUT_S, "an engine may be busy for longer than a keeper may be silent"
assert CHANNEL_LOW_WATERMARK_BYTES_DEFAULT < CHANNEL_CREDIT_BYTES_DEFAULT, "credit needs room between the watermarks"
assert CREDIT_FIRST_BYTES < CHANNEL_CREDIT_BYTES_DEFAULT <= TASK_CREDIT_BYTES_MAX, "credit can grow from its first size"
assert HELD_BYTES_MIN <= CREDIT_FIRST_CHANNEL_BYTES_MIN, "what many senders hold is bounded by their windows"
assert HELD_BYTES_MIN < HELD_BYTES_MAX, "the bound is above the minimum"
assert SLICE_S <= QUEUED_S, "the next slice is queued while one is processed"
assert JOINED_BYTES_MAX <= SLICE_BYTES_MAX, "fixed costs never make slices smaller"
assert OUTPUT_BUFFER_BYTES_DEFAULT <= CHANNEL_CREDIT_BYTES_DEFAULT, "a full buffer must fit"
assert CHANNEL_CREDIT_BYTES_DEFAULT <= ELEMENT_BYTES_MAX, "an element may be larger than the window"
assert PACE_WAIT_S < PACE_WAIT_MAX_S, "a slow machine gets fewer reads"
assert USER_MESSAGE_CHARS_MAX + USER_RECORD_CHARS_MAX + USER_TRACE_CHARS_MAX < FAILURE_BYTES_MAX, (
    "an error of the user's is kept whole"
)
assert SOURCE_READ_BYTES_MAX < INGEST_BATCH_BYTES_MAX < INGEST_MESSAGE_BYTES_MAX, "a read fits"
assert INGEST_MESSAGE_BYTES_MAX < ELEMENT_BYTES_MAX, "a pushed batch fits into an element"
assert SINK_PART_BYTES * 2 < SINK_BUFFER_BYTES_MAX, "one part is encoded while another one fills"
assert SOURCE_READ_BYTES_MAX * 4 < ELEMENT_BYTES_MAX, "steps may widen the rows of one read"
