"""Every bound of the engine, with its name, its unit and its reason.

Relations between bounds are asserted at import, so that editing one number cannot quietly
break another.
"""

# --- Key groups -----------------------------------------------------------------------------
KEY_GROUPS_DEFAULT = 256
KEY_GROUPS_MAX = 32_768  # a group fits the two bytes that begin every state key
HASH_SEED = 42  # Spark SQL's seed of xxhash64

# --- Size of a job --------------------------------------------------------------------------
WORKERS_MAX = 1024
JOB_NAME_CHARS_MAX = 40
STEPS_MAX = 256
SPLITS_MAX = 40_000  # of Parquet files each takes 250 bytes in the message to the leader

# --- Control plane --------------------------------------------------------------------------
LATEST_BYTES_MAX = 64 * 1024  # of the 1 MiB a ConfigMap may hold; the rest is on the volume
CONTROL_MESSAGE_BYTES_MAX = 16 * 1024 * 1024
CONTROL_CALL_TIMEOUT_S = 5.0
SPLITS_BYTES_MAX = 12 * 1024 * 1024  # that describe all splits: one message has them
HEARTBEAT_INTERVAL_S = 0.5
HEARTBEAT_TIMEOUT_S = 5.0  # a member unheard of for so long is lost
ENGINE_SILENCE_TIMEOUT_S = 60.0  # user code may hold the GIL; much longer than a lease
LEASE_DURATION_S = 15.0
LEASE_RENEW_DEADLINE_S = 10.0
LEASE_RETRY_S = 2.0
LOCAL_LEASE_DURATION_S = 5.0  # on one machine no API server is slow or away
LOCAL_LEASE_RENEW_DEADLINE_S = 3.5
LOCAL_LEASE_RETRY_S = 1.0
META_POLL_INTERVAL_S = 2.0  # a watch says most of it sooner, in a pod only what is wanted
SWAP_TRIES_MAX = 64  # of one intent, all of unknown outcome, before a leader gives up
META_RETRY_INTERVAL_S = 0.5  # after the store did not answer
WATCH_WAIT_S = 4.0  # of a call that is answered when something was written
RESEND_INTERVAL_S = 0.5  # a command or acknowledgement without visible effect is repeated
READY_TIMEOUT_S = 60.0
PREPARE_TIMEOUT_S = 60.0
PREPARED_ALONE_S = 2.0  # of a rescale's preparation without a periodic epoch, which it would wait for
RESCALE_TIMEOUT_S = 1200.0  # its barrier; overload is why one scales up
RETAINED_CHECKPOINTS_DEFAULT = 3
RETAINED_CHECKPOINTS_MAX = 64
PERIODIC_SNAPSHOTS_DEFAULT = 7
PERIODIC_SNAPSHOTS_MAX = 1000
SAVEPOINTS_UNDER_WAY_MAX = 8
COPY_TRIES_MAX = 3  # of a savepoint, before its request is answered with the reason
ANSWERS_MAX = 32  # requests considered at a time
LOST_MAX = 64  # named in -latest at a time; the others follow
FAILURE_BYTES_MAX = 4_000  # of the text kept in -latest, as it is encoded there
USER_MESSAGE_CHARS_MAX = 300  # of what an exception of the user's says
USER_VALUE_CHARS_MAX = 60  # of one value of a record in an error
USER_RECORD_CHARS_MAX = 400  # of all its values
GUESSED_FRAMES_MAX = 4  # of the user's, the innermost, whose variables may say which row it was
GUESSED_VALUES_MAX = 16  # of an exception and these variables, that are looked for among the rows
WRONG_GUESSES_MAX = 8  # one behind the other: then rows at fault are found by halves
BAD_VALUES_WATCHED_MAX = 4  # that rows at fault have again and again, looked for in each batch
BAD_VALUES_KEPT_MAX = 8  # of the newest rows at fault, to see one come again; and cleared
BAD_VALUES_IN_VAIN_MAX = 32  # rows at fault, none of whose values came again: then few are asked
BAD_VALUES_ASKED_EACH = 16  # of so many rows at fault one is asked then
BAD_VALUE_ROWS_MAX = 524_288  # without one of them: then it is not looked for any more
SLICED_ROWS_MAX = 8  # refused rows of a batch that are cut out one by one; more by one call for all
USER_TRACE_FRAMES_MAX = 12  # of the user's frames; of more the first and the last half are shown
USER_TRACE_CAUSES_MAX = 3  # exceptions of one chain whose frames are shown
USER_TRACE_CHARS_MAX = 1_100  # of all frames: the whole fits the status of a StreamJob
TEXT_BYTES_MAX = 400  # of any other text kept in -latest
LOST_OUTPUT_MAX = 16  # epochs named in -latest whose output was dropped on request
COLLECT_INTERVAL_S = 30.0
COLLECT_BATCH_MAX = 1_000  # names deleted by one action
RESTART_BACKOFF_FIRST_S = 0.2
RESTART_BACKOFF_MAX_S = 30.0
RESTARTS_BEFORE_STALLED = 10
RESTART_ATTEMPTS_DEFAULT = 10  # restarts after deaths within the window; the next death fails
RESTART_ATTEMPTS_MAX = 1_000  # within a window; more than one every second is no restart
RESTART_WINDOW_S_DEFAULT = 600.0
DEATH_BYTES_MAX = 1_500  # of the text of a death kept in -latest
DEATHS_KEPT_MAX = 4  # the newest ones: who looks every half second misses none

# --- Processes of one worker ----------------------------------------------------------------
KEEPER_INBOX_MAX = 10_000  # beyond it messages are refused; their senders repeat them
KEEPER_LANE_MAX = 10_000  # actions under way; the cores ask for a few at a time
MESSAGE_QUEUE_MAX = 1_000  # messages waiting for one peer; more are dropped, and repeated
PEER_SENDER_IDLE_S = 60.0  # without a message: that incarnation is over, or reports by itself
LAST_CHECKPOINT_WAIT_S = 10.0  # of a stop: for the checkpoint before it; gigabytes take longer
PAGE_REQUEST_TIMEOUT_S = 5.0  # for a whole request to the page of probes and metrics
PAGE_CALLERS_MAX = 32  # of that page at a time, each with a thread; a newer one replaces the oldest
FORK_REQUEST_TIMEOUT_S = 5.0  # of a keeper that has connected and says nothing
ENGINE_EXIT_GRACE_S = 2.0  # for an engine that was told to end, before it is killed
ENGINE_FIRST_WORD_S = 600.0  # of a new engine: it loads, and may compile every kernel
ENGINE_LAST_LINES_MAX = 20  # of its standard error, kept for the reason it died
LOG_TAIL_BYTES_MAX = 16 * 1024  # of a worker's log, in which these are looked for
ENGINE_END_CHARS_MAX = 3_000  # of the text that says how an engine ended
IN_FLIGHT_SLOTS_MAX = 64  # tasks of one engine that can say what they work on
IN_FLIGHT_NAMED_MAX = 8  # of them, in the text of a death
RETIRE_TIMEOUT_S = 5.0  # from the wish to end to the end, whatever still waits
ANNOUNCE_INTERVAL_S = 1.2  # of a keeper whose engine says nothing: counters are passed on at once
ANSWERS_KEPT_MAX = 1_000  # of requests, for clients that ask later
SOUND_LIFE_S = 10.0  # a keeper that lived so long is started again at once
SUPERVISOR_LOOK_INTERVAL_S = 1.0  # what happens wakes it
SILENT_KEEPER_S = 4.0  # of one whose engine the leader has given up: it is ended by force
SUPERVISOR_LINGER_S = 1.0  # after the end, for answers that a client waits for
SUPERVISOR_TIMEOUT_S = 10.0  # a keeper without a supervisor ends: it could commit nothing

# --- Pods ---------------------------------------------------------------------------------------
POD_STATUS_INTERVAL_S = 5.0  # counters in the status ConfigMap; what happens is written at once
LOAD_WINDOW_S = 15.0  # over which a leader averages how busy the job's tasks are
LOAD_HEARD_S = 5.0  # a worker that said nothing for so long: no window ends without it
LOAD_WINDOWS_KEPT = 80  # 20 minutes: what an autoscaler looks back on at most
SILENT_WORKERS_KEPT_S = 300.0  # of a worker that says nothing, in the summary of its job
TRUST_LOOK_INTERVAL_S = 10.0  # at mounted certificates; the kubelet takes up to two minutes
KEEPER_DIAL_INTERVAL_S = 0.2  # of an engine's host whose keeper is not there (yet)
LOOP_STUCK_S = 30.0  # a keeper's loop that has not turned for so long is dead
HOST_ABSENT_S = 60.0  # an engine's container without a host for so long is started again
DRAIN_PUBLISH_S = 2.0  # of a worker that goes, for output that is committed and not yet visible
DRAIN_STILL_S = 10.0  # of a worker that goes, when nothing leads to its last epoch
DRAIN_UNREAD_S = 3.0  # of a worker that goes and may not read what is committed: its job is deleted
GRACE_RESERVE_S = 10.0  # of a pod's grace period, for the end after the last checkpoint

# --- Data plane -----------------------------------------------------------------------------
ELEMENT_BYTES_MAX = 64 * 1024 * 1024  # one element, decoded; larger input is split at the source
ELEMENT_FIXED_CHARGE_BYTES = 512  # what an element costs besides its body
CHANNEL_CREDIT_BYTES_DEFAULT = 8 * 1024 * 1024  # high watermark of a channel's queue
CHANNEL_LOW_WATERMARK_BYTES_DEFAULT = 4 * 1024 * 1024
CREDIT_FIRST_BYTES = 64 * 1024  # of a task, before it is known what a row costs it
CREDIT_FIRST_CHANNEL_BYTES_MIN = 4 * 1024  # of each channel of many: smaller elements cost more
CREDIT_CHANGE_INTERVAL_S = 0.1  # at most doubled so often
TASK_CREDIT_BYTES_MAX = 16 * 1024 * 1024  # of all channels that bring rows
QUEUED_S = 0.25  # of work that the channels of a task hold together; half the target, see SLICE_S
CHANNEL_FLOOR_S = 0.01  # of work that each channel may hold at least
CHANNEL_ACTIVE_S = 0.5  # a channel that brought no rows for so long shares no credit
PACE_SUM_S = 0.25  # of work over which a pace is measured
PACE_SEEN_S = 0.02  # of work after which a new sum replaces the one before
PACE_KEEPS = 0.9  # of what earlier calls say about the fixed cost of a call, with each further one
SLICE_S = 0.1  # of work in a slice: a barrier waits until the task has processed one slice
SLICE_ROWS_PER_FIXED_COST = 4  # where calls cost much and rows little, so many times as much
SLICE_BYTES_MAX = 1024 * 1024  # of a slice that is larger for the fixed cost of calls
SLICE_FIRST_ROWS = 16  # of the first call, which tells what a row costs
OUTPUT_BUFFER_BYTES_DEFAULT = 1024 * 1024
SOURCE_BATCH_ROWS_DEFAULT = 8192  # rows a source reads at once; Python costs are per batch
SOURCE_BATCH_ROWS_MAX = 1_000_000
SOURCE_READ_S = 0.008  # work of a source's thread on one batch that is put together from reads
SOURCE_READ_BYTES = 8 * 1024 * 1024  # of such a batch, when it is dealt out to many
SOURCE_READ_ROWS_MAX = 65_536  # more gain nothing: the fixed cost of a read is below 1 % by then
OUTPUT_FLUSH_INTERVAL_S_DEFAULT = 0.005
SENDER_THREADS = 2
COMPRESSION_SAMPLE_BYTES = 64 * 1024
COMPRESSION_SAMPLE_EVERY_BYTES = 64 * 1024 * 1024  # then entropy is measured again, as rows may have changed
COMPRESSION_BATCH_BYTES_MIN = 4096  # smaller ones gain less than the schema that goes with them
COMPRESSION_AUTO_BATCH_BYTES_MIN = 64 * 1024  # smaller ones measure the call, not the link
COMPRESSION_TRY_AFTER_BYTES = 16 * 1024 * 1024
COMPRESSION_TRY_AFTER_BYTES_MAX = 4 * 1024 * 1024 * 1024  # trials are then 0.4 % of the bytes
COMPRESSION_TRY_SHARE = 20  # a pause that ends by time is so many times as long as its trial
COMPRESSION_TRY_AFTER_S_MAX = 60.0  # of sending: on a slow link so many bytes take an hour
COMPRESSION_TRY_BYTES = 10 * 1024 * 1024
COMPRESSION_SKIPPED_BYTES = 6 * 1024 * 1024  # before it: buffers of sockets take them at once
COMPRESSION_STALLED_BYTES_PER_S = 1024 * 1024  # slower is a receiver that rests, not a link
COMPRESSION_RATE_BYTES = 32 * 1024 * 1024  # over which a rate is measured
SENDS_PER_PUMP_MAX = 16  # elements of one channel before a sender thread looks at the next
LATENCY_MARK_INTERVAL_S = 0.0043  # of a paced split: each is a message; no multiple of a flush
LATENCY_MARKS_PER_READ_MAX = 64
JOINED_BYTES_MAX = 512 * 1024  # queued elements that a task takes as one: steps cost per batch
CREDIT_DELAY_S = 0.02  # small grants of all channels between two workers wait to share a message
CREDITS_PER_MESSAGE_MAX = 1024
CONTROLS_WAITING_MAX = 1024  # control elements of one channel that wait behind its data
HELD_STREAMS_MAX = 4096  # streams of an attempt or a version that this worker has yet to reach
STREAM_CHECK_INTERVAL_S = 0.5  # a waiting handler looks whether its caller is still there
HELD_WINDOWS = 4  # of a receiver that has not announced: so many may be held for it
HELD_BYTES_MIN = 4 * 1024  # whatever the windows are; many senders hold as much each
HELD_BYTES_MAX = 64 * 1024 * 1024  # records of moving groups held by one sender task
LISTEN_TRIES = 200  # of a server in the place of one that has just stopped listening
LISTEN_PAUSE_S = 0.01  # between two of them
ORPHAN_HANDLERS_MAX = 64  # above it the engine restarts
WRITE_CANCEL_DEADLINE_S = 5.0
RESET_DEADLINE_S = 30.0  # a task thread that has not acknowledged by then ends its process
TASK_INBOX_MAX = 1024

FREED_BYTES_KEPT = 64 * 1024 * 1024  # of one heap of the C library, for the next messages

# --- Connectors -----------------------------------------------------------------------------
SOURCE_READ_BYTES_MAX = 8 * 1024 * 1024  # of one read, unless a single row is larger
INGEST_QUEUE_BYTES_MAX = 4 * 1024 * 1024  # of one partition; then its sender waits
INGEST_BATCH_BYTES_MAX = 16 * 1024 * 1024  # of one batch, unpacked; and of a stream's dictionaries
INGEST_BATCH_ROWS_MAX = 1024 * 1024  # of one batch: columns of nulls take no bytes
INGEST_MESSAGE_BYTES_MAX = 17 * 1024 * 1024  # that brings a batch: its buffers are listed, too
INGEST_CHARGE_BYTES_MIN = 8 * 1024  # of a batch in that queue, and of dictionaries: small ones cost more
INGEST_STREAMS_SPARE = 64  # beyond two for each partition: for senders at the wrong worker, which get the right address
INGEST_HELLO_TIMEOUT_S = 10.0  # of a sender that has opened a stream and says nothing
INGEST_LINGER_S = 10.0  # for a sender to read why its stream ends, and to hang up
INGEST_WAIT_S = 0.5  # a handler that waits looks whether it still should
GENERATOR_BLOCK_BYTES_MAX = 1024 * 1024 * 1024
INPUT_LOOK_INTERVAL_S = 5.0  # between two looks for files that are in no checkpoint
INPUT_LOOK_SHARE = 100  # of the time that a look took: it costs a hundredth of a processor at most
INPUT_NAMES_SHOWN_MAX = 5  # of files in a message; the others are counted
SOURCE_SPLITS_READ_MAX = 16  # of a source task, that hold memory: the others wait for a place
SOURCE_POLL_S = 0.002  # a source sleeps so long when a split has no rows and cannot say until when
SOURCE_REST_MAX_S = 0.05  # longest sleep of a source: a split that falls silent is noticed at most this late
PACE_WAIT_MAX_S = 0.01  # where the work on the last rows took longer
PACE_READ_ROWS = 64  # of a paced split at once, when they fall due soon enough
PACE_REST_MAX_S = 0.05  # soon enough: a row of a slow pace waits that long for others
PACE_WAIT_S = 0.001  # at least, for rows of a paced split: the shorter, the more calls per row
SINK_PART_BYTES = 32 * 1024 * 1024  # rows of one staged file, in memory until it is durable
SINK_BUFFER_BYTES_MAX = 96 * 1024 * 1024  # above it a sink has no room and its task waits

# --- State and checkpoints ------------------------------------------------------------------
STATE_MEMORY_BYTES_DEFAULT = 1024 * 1024 * 1024
CHECKPOINT_INTERVAL_S_DEFAULT = 10.0
CHECKPOINT_TIMEOUT_S_DEFAULT = 600.0
CHECKPOINT_FIRST_DELAY_S = 0.2  # the first output should not wait for a whole interval
STATE_FILES_PER_TASK_MAX = 16  # more are compacted: bounds what a restore reads
FIRED_ROWS_MAX = 65_536  # windows emitted as one batch; the next slice waits until it has left
STATE_MERGE_BYTES_MAX = 128 * 1024 * 1024  # of files merged in memory at once
MANIFEST_BYTES_MAX = 64 * 1024 * 1024

# --- JSON from outside ----------------------------------------------------------------------
JSON_BYTES_MAX = MANIFEST_BYTES_MAX  # nothing that is read is larger
API_ANSWER_BYTES_MAX = 512 * 1024 * 1024  # of the API server: 500 objects of 1 MiB are a page
API_DEPTH_MAX = 10_100  # the API server takes objects 10,000 deep; a list is around them
JSON_DEPTH_MAX = 64  # of lists and objects; the deepest of ours, a pod's template, has about 15

assert LEASE_RETRY_S < LEASE_RENEW_DEADLINE_S < LEASE_DURATION_S, "a leader must stop in time"
assert HEARTBEAT_TIMEOUT_S < DRAIN_STILL_S, "a member's death is known before the wait is over"
assert ANNOUNCE_INTERVAL_S * 3 < SILENT_KEEPER_S < HEARTBEAT_TIMEOUT_S, "one lost is no silence"
assert WATCH_WAIT_S < CONTROL_CALL_TIMEOUT_S, "a watch is answered in time"
assert META_POLL_INTERVAL_S < DRAIN_UNREAD_S, "one failed read is not the end"
assert HEARTBEAT_TIMEOUT_S * 2 < PEER_SENDER_IDLE_S, "a peer keeps its thread between heartbeats"
assert SPLITS_BYTES_MAX < CONTROL_MESSAGE_BYTES_MAX < MANIFEST_BYTES_MAX, "an order has them, too"
assert HEARTBEAT_INTERVAL_S * 4 < HEARTBEAT_TIMEOUT_S, "one lost heartbeat is not a death"
assert HEARTBEAT_TIMEOUT_S + LEASE_RENEW_DEADLINE_S <= LEASE_DURATION_S, "or a loss is late"
assert HEARTBEAT_TIMEOUT_S < ENGINE_SILENCE_TIMEOUT_S, "a busy engine is not a dead keeper"
assert CHANNEL_LOW_WATERMARK_BYTES_DEFAULT < CHANNEL_CREDIT_BYTES_DEFAULT, "grants need a gap"
assert CREDIT_FIRST_BYTES < CHANNEL_CREDIT_BYTES_DEFAULT <= TASK_CREDIT_BYTES_MAX, "credit grows"
assert HELD_BYTES_MIN <= CREDIT_FIRST_CHANNEL_BYTES_MIN, "many senders hold what windows say"
assert HELD_BYTES_MIN < HELD_BYTES_MAX, "a bound has room"
assert SLICE_S <= QUEUED_S, "the next slice waits while one is worked on"
assert JOINED_BYTES_MAX <= SLICE_BYTES_MAX, "fixed costs make slices larger, never smaller"
assert OUTPUT_BUFFER_BYTES_DEFAULT <= CHANNEL_CREDIT_BYTES_DEFAULT, "a full buffer must fit"
assert CHANNEL_CREDIT_BYTES_DEFAULT <= ELEMENT_BYTES_MAX, "one element may exceed the window"
assert PACE_WAIT_S < PACE_WAIT_MAX_S, "a slow machine gets fewer reads"
assert USER_MESSAGE_CHARS_MAX + USER_RECORD_CHARS_MAX + USER_TRACE_CHARS_MAX < FAILURE_BYTES_MAX, (
    "an error of the user's is kept whole"
)
assert SOURCE_READ_BYTES_MAX < INGEST_BATCH_BYTES_MAX < INGEST_MESSAGE_BYTES_MAX, "a read fits"
assert INGEST_MESSAGE_BYTES_MAX < ELEMENT_BYTES_MAX, "what is pushed fits an element"
assert SINK_PART_BYTES * 2 < SINK_BUFFER_BYTES_MAX, "one part is encoded while one fills"
assert SOURCE_READ_BYTES_MAX * 4 < ELEMENT_BYTES_MAX, "steps may widen the rows of one read"
