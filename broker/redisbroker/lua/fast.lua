-- fast is the way of most enqueues of one job, before all the rest of the script is
-- defined: small plain jobs go to the inbox (plain.lua) while nobody waits or watches,
-- no capacity is to be kept and no job has fallen due: it became ready before. It returns the answers, and whether the inbox is full: then
-- the long way takes it in. Without answers the long way does it all.

local call, pack, unpack_, sub = redis.call, struct.pack, struct.unpack, string.sub

local INBOX = 400 -- how long it grows: a time stands before the calls of each run
local LARGE = 8192 -- bytes of a call: larger ones would make the inbox too much for one script

local DUES = 127 -- where due0 and due1 stand in the configuration

local function fast()
	local s = call('GETRANGE', KEYS[1], 0, 141)
	if string.byte(s) ~= VERSION then return nil end
	local flags, last, off, watch, idle = unpack_('>I4I8i8I8I8', s, 2)
	if bit.band(flags, CAPS) ~= 0 then return nil end
	local wall, now = Time.read(ARGV[1])
	now = now or wall + off
	if now < last then now = last end
	if watch > now or idle > now then return nil end
	local due0, due1 = unpack_('>I8I8', s, DUES)
	if due0 <= now or due1 <= wall then return nil end
	local answers = {}
	for k = 1, #ARGV do
		local arg = ARGV[k]
		if #arg > LARGE or sub(arg, 17, 21) ~= '\2\0\0\0\1' then return nil end -- one plain job
		answers[k] = '\0' -- added under its id
	end
	return answers, call('RPUSH', sub(KEYS[1], 1, -2) .. 'I', pack('>I7', now), unpack(ARGV)) >= INBOX
end
