-- fast is the way of most enqueues of one job, before all the rest of the script is
-- defined: plain jobs go to the inbox (plain.lua) while nobody waits or watches, and
-- no capacity is to be kept. It returns the answers, and whether the inbox is full: then
-- the long way takes it in. Without answers the long way does it all.

local call, pack, unpack_, sub = redis.call, struct.pack, struct.unpack, string.sub

local INBOX = 128 -- how many jobs lie there at most

local function fast()
	local s = call('GETRANGE', KEYS[1], 0, 36)
	if string.byte(s) ~= VERSION then return nil end
	local flags, last, off, watch, idle = unpack_('>I4I8i8I8I8', s, 2)
	if bit.band(flags, CAPS) ~= 0 then return nil end
	local wall, now = Time.read(ARGV[1])
	now = now or wall + off
	if now < last then now = last end
	if watch > now or idle > now then return nil end
	local at, calls, answers = pack('>I7', now), {}, {}
	for k = 1, #ARGV do
		local arg = ARGV[k]
		if sub(arg, 17, 21) ~= '\2\0\0\0\1' then return nil end -- one plain job
		calls[k], answers[k] = at .. arg, '\0\0' .. sub(arg, 22, 37)
	end
	return answers, call('RPUSH', sub(KEYS[1], 1, -2) .. 'I', unpack(calls)) >= INBOX
end
