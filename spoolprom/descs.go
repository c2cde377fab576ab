package spoolprom

import "github.com/prometheus/client_golang/prometheus"

// Other is the label value that stands for everything beyond the bound of
// distinct tasks and queues: see Config.MaxTasks.
const Other = "_other"

// descs are what a Collector can send.
var descs []*prometheus.Desc

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	descs = append(descs, d)
	return d
}

// Of each task of each queue.
var (
	jobsDesc      = newDesc("spool_jobs", "Jobs that are in the store now, by state.", "queue", "task", "state")
	enqueuedDesc  = newDesc("spool_jobs_enqueued_total", "Jobs ever enqueued.", "queue", "task")
	claimedDesc   = newDesc("spool_jobs_claimed_total", "Leases ever given.", "queue", "task")
	ackedDesc     = newDesc("spool_jobs_acked_total", "Jobs ever finished.", "queue", "task")
	failedDesc    = newDesc("spool_jobs_failed_total", "Attempts that ever failed: nacks, and buries of a running job.", "queue", "task")
	expiredDesc   = newDesc("spool_jobs_expired_total", "Leases that ever ended without a settlement.", "queue", "task")
	diedDesc      = newDesc("spool_jobs_died_total", "Jobs that ever became dead letters.", "queue", "task")
	cancelledDesc = newDesc("spool_jobs_cancelled_total", "Jobs that ever ended cancelled.", "queue", "task")
	deletedDesc   = newDesc("spool_jobs_deleted_total", "Jobs ever deleted by a command.", "queue", "task")
	servedDesc    = newDesc("spool_task_workers", "Live workers that listen to the queue and handle the task.", "queue", "task")
)

// Of each queue.
var (
	depthDesc         = newDesc("spool_queue_depth", "Jobs that a capacity counts: scheduled, ready and leased.", "queue")
	highWaterDesc     = newDesc("spool_queue_depth_high_water", "The most that the depth ever was.", "queue")
	bytesDesc         = newDesc("spool_queue_bytes", "Bytes of the jobs that a capacity counts: payloads and headers.", "queue")
	capacityJobsDesc  = newDesc("spool_queue_capacity_jobs", "Ceiling of the depth, where one is set.", "queue")
	capacityBytesDesc = newDesc("spool_queue_capacity_bytes", "Ceiling of the bytes, where one is set.", "queue")
	pausedDesc        = newDesc("spool_queue_paused", "1 while an operator has paused the queue.", "queue")
	oldestDesc        = newDesc("spool_oldest_ready_age_seconds", "Time since it was due of the job that has been ready longest; 0 when none is ready.", "queue")
	listenersDesc     = newDesc("spool_queue_workers", "Live workers that listen to the queue.", "queue")
)

// Of settings.
var (
	rateDesc           = newDesc("spool_limit_rate_per_second", "Claims per second that a limit allows.", "queue", "limit", "per")
	burstDesc          = newDesc("spool_limit_burst", "Claims at once that a limit of a rate allows.", "queue", "limit", "per")
	runningDesc        = newDesc("spool_limit_running", "Running jobs that a limit allows.", "queue", "limit", "per")
	usedDesc           = newDesc("spool_limit_running_used", "Running jobs that a limit counts; only of one for all jobs together.", "queue", "limit")
	scheduleNextDesc   = newDesc("spool_schedule_next_timestamp_seconds", "Next instant of the schedule, in Unix time; absent until a scheduler has seen it, and when there is none.", "queue", "schedule")
	schedulePausedDesc = newDesc("spool_schedule_paused", "1 while an operator has paused the schedule.", "queue", "schedule")
)

// Of the store.
var (
	workersDesc = newDesc("spool_workers", "Live workers, of every process.")
	slotsDesc   = newDesc("spool_worker_slots", "Jobs that the live workers can run at a time.")
	leasesDesc  = newDesc("spool_worker_leases", "Leases that the live workers hold.")
	healthDesc  = newDesc("spool_store_health", "1 for the status that the store has, 0 for the others.", "status")
	infoDesc    = newDesc("spool_store_info", "1; its label names the broker.", "broker")
	foldedDesc  = newDesc("spool_series_folded", "How many tasks and queues are counted under _other, and limits and schedules left out, to keep to the bound.", "kind")
	successDesc = newDesc("spool_scrape_success", "1 when that part of the store could be read; metrics of a part that could not are absent.", "part")
)

// Of the file broker.
var (
	commitDesc      = newDesc("spool_file_commit_seconds", "Time that this process held the store's lock until a frame was in the log: to catch up, decide and write.")
	syncDesc        = newDesc("spool_file_sync_seconds", "Time that a sync of the log took which answers of this process waited for, with the wait for its turn among processes.")
	loadsDesc       = newDesc("spool_file_loads_total", "How often this process built the state from the log.")
	compactionsDesc = newDesc("spool_file_compactions_total", "Checkpoints that this process wrote.")
	diskDesc        = newDesc("spool_file_disk_bytes", "Size of the store's files.")
	usedBytesDesc   = newDesc("spool_file_used_bytes", "Size of the store's files without the room that is kept ready for the log to come.")
	logBytesDesc    = newDesc("spool_file_log_bytes", "Size of the log since the last checkpoint; segments count whole.")
	liveBytesDesc   = newDesc("spool_file_live_bytes", "About what the jobs that there are need of the files.")
)
