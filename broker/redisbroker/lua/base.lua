-- base: short names, and writes that are gathered until the end of the script.

local call, pack, unpack_ = redis.call, struct.pack, struct.unpack
local floor, min, max = math.floor, math.min, math.max
local band, bor, bnot = bit.band, bit.bor, bit.bnot

-- P is what the names of all keys of this queue begin with: namespace:{queue}:
local P = string.sub(KEYS[1], 1, -2)
local CHANNEL = P .. 'm'
local EVENTS = string.match(P, '^(.*{).*$') .. '*}:m'
local NEVER = 9007199254740991 -- 2^53 - 1, later than every time
local CALL_MS = 300000 -- how long the answer of a call is remembered: longer than it is repeated
local RENEW_MS = 60000 -- the rest of what a hash of such answers lives after its last renewal: one comes after half of this

-- The states and reasons of a job, as package broker numbers and names them.
local SCHEDULED, READY, LEASED, DONE, DEAD, CANCELLED = 1, 2, 3, 4, 5, 6
local R_none, R_acked, R_retry, R_snoozed, R_released, R_expired, R_attempts, R_crashed, R_buried = 0, 1, 2, 3, 4, 5, 6, 7, 8
local R_damaged, R_cancelled, R_dropped, R_not_started, R_requeued, R_replaced, R_worker_died, R_cancel_asked, R_batch, R_duplicate = 9, 10, 11, 12, 13, 14, 15, 16, 17, 18

-- The status of an answer: its first byte.
local OK, UNKNOWN_QUEUE, INVALID, FULL, CONFLICT, NEWER, AWAY, SPREAD = '\0', '\1', '\2', '\3', '\4', '\5', '\6', '\7'

local NONE = {} -- no limits

-- Buf gathers changes of sorted sets and hashes, so that many jobs of one
-- script share a command. Of two changes of one member the last one holds.
local Buf = { z = {}, h = {}, gone = {}, n = 0 }

-- zset adds a member with a score, or removes it (score false).
function Buf.zset(key, member, score)
	local t = Buf.z[key]
	if not t then t = {}; Buf.z[key] = t end
	t[member] = score
end

-- set returns what is gathered for a sorted set, to be added to: member to score.
function Buf.set(key)
	local t = Buf.z[key]
	if not t then t = {}; Buf.z[key] = t end
	return t
end

-- fields is the same for a hash.
function Buf.fields(key)
	local t = Buf.h[key]
	if not t then t = {}; Buf.h[key] = t end
	return t
end

-- hset sets a field of a hash, or removes it (value false).
function Buf.hset(key, field, value)
	local t = Buf.h[key]
	if not t then t = {}; Buf.h[key] = t end
	t[field] = value
end

-- many calls a command with the rest of its arguments in parts that a Lua stack
-- holds; they number two a piece when pairs is set.
local function many(name, key, args)
	local n = #args
	if n == 0 then return end
	for i = 1, n, 2000 do call(name, key, unpack(args, i, min(i + 1999, n))) end
end

-- score is a number as a command takes it: Redis writes one out at greater cost.
local scored, text
local function score(n)
	if n ~= scored then scored, text = n, n % 1 == 0 and string.format('%.0f', n) or n end
	return text
end

-- one writes what is gathered for one sorted set, before it is read.
function Buf.one(key)
	local t = Buf.z[key]
	if not t then return end
	local add, rem = {}, {}
	for member, at in pairs(t) do
		if at then
			local n = #add
			add[n + 1], add[n + 2] = score(at), member
		else
			rem[#rem + 1] = member
		end
	end
	many('ZREM', key, rem)
	many('ZADD', key, add)
	Buf.z[key] = nil
end

-- hash is the same for a hash.
function Buf.hash(key)
	local t = Buf.h[key]
	if not t then return end
	local add, rem = {}, {}
	for field, value in pairs(t) do
		if value then
			local n = #add
			add[n + 1], add[n + 2] = field, value
		else
			rem[#rem + 1] = field
		end
	end
	many('HDEL', key, rem)
	many('HSET', key, add)
	Buf.h[key] = nil
end

function Buf.flush()
	for key in pairs(Buf.z) do Buf.one(key) end
	for key in pairs(Buf.h) do Buf.hash(key) end
	Buf.drop()
end

-- del removes a record at the end.
function Buf.del(key) Buf.gone[key] = true; Buf.n = Buf.n + 1 end

-- drop removes the records that Buf.del named.
function Buf.drop()
	if Buf.n == 0 then return end
	local keys = {}
	for key in pairs(Buf.gone) do keys[#keys + 1] = key end
	for i = 1, #keys, 2000 do call('DEL', unpack(keys, i, min(i + 1999, #keys))) end
	Buf.gone, Buf.n = {}, 0
end

-- str packs a string behind its length.
local function str(s) return pack('>I4', #s) .. s end

-- less compares the packed numbers that two strings begin with, of six bytes: `<`
-- compares strings as the server's locale would sort words.
local function less(x, y) return (unpack_('>I6', x)) < (unpack_('>I6', y)) end

-- top returns the score and the member of the first of a sorted set, or nil.
local function top(key)
	local r = call('ZRANGE', key, 0, 0, 'WITHSCORES')
	if r[1] then return tonumber(r[2]), r[1] end
end
