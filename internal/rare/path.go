package rare

// Path is a rare place.
type Path uint8

// The paths, by package.
const (
	// In internal/journal.
	TailCut Path = iota
	TailNotKept
	TornNameTaken
	DamageRefused
	WriteTakenBack
	WriteNotTakenBack
	WipedByTruncating
	Poisoned
	PoisonedByOther
	PoisonReasonMissing
	PoisonReasonFromFile
	PoisonLeft
	PoisonLeftOnFullDisk
	BrokenHandleRefused
	ControlContradictsItself
	ReadCacheDropped
	CrossedWithoutEnd
	RollFinished
	FellBehind
	SegmentMissing
	EndLost
	SyncFailed
	SyncNotRepeated
	DirSyncFailed
	LateDescriptorVouched
	LostBytesFound
	SyncFollowedTheLog
	SyncerReplaced
	SyncSaved
	ControlRebuilt
	LockReplaced
	UsedAfterFork
	TurnAwaited
	EnqueueRefused
	ReserveUsed
	ReserveTooSmall
	ReserveLent
	ReserveEmpty
	ReserveRefilled
	ReserveCutDown
	SegmentsSmaller
	SegmentMadeUnderLock
	SegmentGrewOn
	NextForWantOfRoom
	SegmentCutDown
	FlipOvertaken
	CurrentReadAgain
	CheckpointMissing
	FilesEvicted
	CurrentLost
	PayloadFileCutShort
	SkippedToTheEnd

	// In internal/jobstate.
	StaleToken
	SettlementRepeated
	LeaseLost
	CallRepeated
	CallIDReused
	LeaseExpired
	LeasePutOff
	JobCrashedTooOften
	EnqueuedWithoutState
	RecordRefused

	// In broker/filebroker.
	RecoveredAlone
	CompactLockInherited
	PeerDied
	PeerLeftNothing
	PeerNotProbed
	PeerMissed
	LeftUnsettled
	LockFileRefused
	EpochOpened
	EpochJoined
	EpochForgot
	BootEnded
	EnqueueTurnedAway
	ScrapedRoom
	StateRebuilt
	ReadOvertaken
	LoadOvertaken
	CountsDisagree
	HolderReported
	CompactorReported
	HolderUnknown
	StateNeeded
	SpareStateDropped
	PayloadDamaged
	PayloadMoved
	PayloadUnread
	PayloadLost
	PayloadEvacuated
	DamageLeft
	SmallFilesMerged
	FlippedUnmoved
	CompactionBusy
	CompactionLeft
	SlotTaken
	BellGone
	WatchLost
	AlarmLost
	CallAbandoned
	CallTooLateToLeave
	RoomAwaited
	RoomAwaitedInVain
	RoomFound
	Healed
	HealRefused
	StayOver

	// In the worker.
	HandlerStopped
	LeaseGivenUp
	HeartFailed
	LeaseProved
	LeaseTooLate
	ClaimStumbled
	ClaimGivenBack
	HandlerPanicked
	HandlerLeft
	NothingSettled
	SettledAlone
	AckRefused
	SettleRepeated
	AckUnknown
	SettlementBusy
	ReplyLost
	ShutdownCancelled
	ShutdownLeft

	pathsEnd
)

var names = [pathsEnd]string{
	TailCut:                  "a torn tail was cut",
	TailNotKept:              "a torn tail was cut and not kept: no room",
	TornNameTaken:            "a torn tail was cut where one had been kept",
	DamageRefused:            "damage below what was durable was refused",
	WriteTakenBack:           "a failed write was taken back",
	WriteNotTakenBack:        "a failed write could not be taken back",
	WipedByTruncating:        "bytes were cut by truncating, where no zeros could be written",
	Poisoned:                 "the store was poisoned",
	PoisonedByOther:          "a handle learned of poison from another",
	PoisonReasonMissing:      "a store was poisoned for a reason that was not recorded",
	PoisonReasonFromFile:     "the reason of a poison was read from POISON",
	PoisonLeft:               "a store was recovered from poison",
	PoisonLeftOnFullDisk:     "a store was recovered from poison on a full disk",
	BrokenHandleRefused:      "a handle that was told of a failure could not recover",
	ControlContradictsItself: "CONTROL knew more to be durable than was written",
	ReadCacheDropped:         "a recovery read again from the disk what it had read",
	CrossedWithoutEnd:        "the log went on in the next segment without an end record",
	RollFinished:             "a handle finished the roll of another",
	FellBehind:               "a handle was overtaken: its segment was compacted away",
	SegmentMissing:           "a segment that ought to be there was missing",
	EndLost:                  "the log ended before what was written since the machine started",
	SyncFailed:               "a sync failed",
	SyncNotRepeated:          "a file whose sync failed was not synced again",
	DirSyncFailed:            "a sync of the directory failed",
	LateDescriptorVouched:    "a descriptor that was opened late was verified from the disk",
	LostBytesFound:           "the disk had lost what the cache still showed",
	SyncFollowedTheLog:       "a segment was sealed and dropped while it was to be synced",
	SyncerReplaced:           "a syncer that was gone or slow was replaced",
	SyncSaved:                "another's sync was for a handle, too",
	ControlRebuilt:           "CONTROL was made anew",
	LockReplaced:             "LOCK or CONTROL was replaced under a handle",
	UsedAfterFork:            "a handle was used after a fork",
	TurnAwaited:              "a handle waited for its turn at the lock",
	EnqueueRefused:           "an enqueue was refused for want of room",
	ReserveUsed:              "a checkpoint was written into the reserve",
	ReserveTooSmall:          "a checkpoint did not fit into the reserve",
	ReserveLent:              "the reserve gave the room for a segment",
	ReserveEmpty:             "the reserve had nothing to spare for a segment",
	ReserveRefilled:          "the reserve was made whole again after a full disk",
	ReserveCutDown:           "the reserve was cut down",
	SegmentsSmaller:          "segments were prepared smaller, as there was room",
	SegmentMadeUnderLock:     "a segment was made under the lock",
	SegmentGrewOn:            "a segment grew beyond its size",
	NextForWantOfRoom:        "a settlement went to the next segment for want of room",
	SegmentCutDown:           "a sealed segment was cut down",
	FlipOvertaken:            "a flip found that another had come first",
	CurrentReadAgain:         "a handle found another CURRENT than it knew",
	CheckpointMissing:        "the checkpoint that CURRENT names was missing",
	FilesEvicted:             "files were closed since many were open",
	CurrentLost:              "CURRENT was lost or garbled",
	PayloadFileCutShort:      "a payload file was finished with what there was room for",
	SkippedToTheEnd:          "a handle skipped to the end of the log",
	StaleToken:               "a stale token was refused",
	SettlementRepeated:       "a settlement was made again",
	LeaseLost:                "an extension found its lease lost",
	CallRepeated:             "a call was made again, and answered from memory",
	CallIDReused:             "a call came with the id of another",
	LeaseExpired:             "a lease expired",
	LeasePutOff:              "the end of a lease whose lock is held was put off",
	JobCrashedTooOften:       "a job whose workers died had no attempts left",
	EnqueuedWithoutState:     "jobs were enqueued without the state",
	RecordRefused:            "a damaged record was refused",
	RecoveredAlone:           "a handle that was alone recovered the store",
	CompactLockInherited:     "a process that is no client held COMPACT",
	PeerDied:                 "a handle settled what a dead one had held",
	PeerLeftNothing:          "a dead handle had held nothing",
	PeerNotProbed:            "it could not be looked whether a handle lives",
	PeerMissed:               "a dead handle was found by a look, not by its bell",
	LeftUnsettled:            "a handle left without saying so: it could not write",
	LockFileRefused:          "the file of a lock could not be made",
	EpochOpened:              "an epoch was opened anew",
	EpochJoined:              "a handle joined the epoch of a live one",
	EpochForgot:              "an epoch was opened whose predecessor may have been forgotten",
	BootEnded:                "leases of an earlier boot were ended",
	EnqueueTurnedAway:        "enqueues were turned away from a commit that went on",
	ScrapedRoom:              "a settlement took the last room of a full disk",
	StateRebuilt:             "a state was built anew after a failed write",
	ReadOvertaken:            "a reader without the lock was overtaken by a compaction",
	LoadOvertaken:            "a load was overtaken by a compaction",
	CountsDisagree:           "a handle counted otherwise than who sealed a segment",
	HolderReported:           "the holder of the lock was reported",
	CompactorReported:        "a compactor that stands still was reported",
	HolderUnknown:            "the lock was held by nobody known",
	StateNeeded:              "an enqueue without the state had to wait for it",
	SpareStateDropped:        "the state that a recovery had left was dropped",
	PayloadDamaged:           "a payload was damaged, and its job died",
	PayloadMoved:             "a payload had been moved since it was looked up",
	PayloadUnread:            "a payload could not be read, and its job was given back",
	PayloadLost:              "the file of a payload was lost",
	PayloadEvacuated:         "payloads were moved by a compaction",
	DamageLeft:               "a compaction left a damaged payload where it was",
	SmallFilesMerged:         "many small payload files were put together",
	FlippedUnmoved:           "a compaction of a full disk moved nothing",
	CompactionBusy:           "a compaction left the work to another",
	CompactionLeft:           "a compaction was left by its caller while it waited for the lock",
	SlotTaken:                "the slot of a dead handle was taken",
	BellGone:                 "a bell to be rung had gone with its handle",
	WatchLost:                "a handle had no notice of others, and polled",
	AlarmLost:                "there was no alarm clock",
	CallAbandoned:            "a caller left before its call was decided",
	CallTooLateToLeave:       "a caller who left got the answer, since it was decided",
	RoomAwaited:              "a settlement waited for room",
	RoomAwaitedInVain:        "a settlement waited for room in vain",
	RoomFound:                "an enqueue found room once it looked",
	Healed:                   "a client joined a store again that had been poisoned",
	HealRefused:              "a client could not join a poisoned store again yet",
	StayOver:                 "a call met a stay that was over, and was made in the next",
	HandlerStopped:           "the handler of a lost lease was stopped",
	LeaseGivenUp:             "a lease that could not be extended was given up",
	HeartFailed:              "a heartbeat failed",
	LeaseProved:              "leases that came late were proved",
	LeaseTooLate:             "leases came after their ends",
	ClaimStumbled:            "a claim failed",
	ClaimGivenBack:           "a lease that came after the stop was given back",
	HandlerPanicked:          "a handler panicked",
	HandlerLeft:              "a handler ended its goroutine",
	NothingSettled:           "a run was not settled: its lease was lost or the worker over",
	SettledAlone:             "finished jobs were settled one by one",
	AckRefused:               "an ack could not be stored, and became a failed attempt",
	SettleRepeated:           "a settlement failed and was made again",
	AckUnknown:               "an ack whose reply was lost had been made",
	SettlementBusy:           "a settlement came while another was under way",
	ReplyLost:                "a call without an answer was made again",
	ShutdownCancelled:        "a shutdown cancelled what still ran",
	ShutdownLeft:             "a shutdown left jobs behind",
}

// String says what happened, as a sentence.
func (p Path) String() string { return names[p] }
