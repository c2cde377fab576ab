-- moves reads the record of a queue's move.
-- Call: call id (none). Answer: status, steady clock µs, number of the last place,
-- whether a batch is kept that may not have arrived, number of fields (0: there is no
-- record), fields: name and value.

local function moves(_)
	local all = {}
	if Q.is(MOVES) then all = call('HGETALL', P .. 'M') end
	local out = { OK .. pack('>I8I8BI4', Q.now, Q.seq, call('EXISTS', P .. 'O!'), #all / 2) }
	for i = 1, #all do out[i + 1] = str(all[i]) end
	return table.concat(out)
end

return run(moves)
