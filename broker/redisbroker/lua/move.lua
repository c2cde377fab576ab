-- move writes the record of a queue's move, if it is at the revision that the caller
-- saw (0: there is none).
-- Call: call id, revision, whether the batch that is on its way still is, state (0: the
-- record is dropped), number of fields, fields: name and value.
-- Answer: status (conflict: it is another by now).

local function move(arg)
	local id, saw, keep, state, n, i = unpack_('>c16I6BBI4', arg)
	local was = Calls.get(id)
	if was then return was end
	local m = Move.read() or { rev = 0 }
	if m.rev ~= saw then return CONFLICT end
	local fields = {}
	for _ = 1, n do
		local name, value
		name, value, i = unpack_('>I2c0I4c0', arg, i)
		fields[name] = value
	end
	local rested = Q.is(RESTS)
	Move.rest(state)
	if state == 0 then call('DEL', P .. 'M') else Move.write(m, fields) end
	if keep == 0 then call('UNLINK', P .. 'O!') end
	if state ~= LEAVING and state ~= ARRIVING then call('UNLINK', P .. 'K!', P .. 'B!') end
	if rested and not Q.is(RESTS) then Move.works() end
	Calls.keep(id, OK)
	return OK
end

return run(move)
