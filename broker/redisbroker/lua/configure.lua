-- configure replaces the settings of a queue, if they are those that the caller saw.
-- Call: call id, and what govern reads.
-- Answer: status (conflict: the settings are others by now).

local function configure(arg)
	local id, i = unpack_('>c16', arg)
	local was = Calls.get(id)
	if was then return was end
	if not Govern.change(arg, i) then return CONFLICT end
	Calls.keep(id, OK)
	return OK
end

return run(configure)
