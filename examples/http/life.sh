#!/bin/sh
# A job's whole life over HTTP, with curl: enqueue, look, claim, extend, settle,
# read the result, operate.
#
#	spool serve &
#	sh life.sh http://127.0.0.1:8080
set -eu
base=${1:-http://127.0.0.1:8080}

call() { # METHOD PATH [BODY]
	curl --silent --show-error --fail-with-body -X "$1" "$base$2" ${3:+-H 'Content-Type: application/json' --data-binary "$3"}
}
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; } # of JSON on one line

echo "# enqueue: a key makes a repeat harmless"
job=$(call POST /v1/jobs '{"queue":"mail","task":"welcome","payload":{"to": "ada@example.com"},"key":"welcome-42","retain":"1h"}')
again=$(call POST /v1/jobs '{"queue":"mail","task":"welcome","payload":{"to": "ada@example.com"},"key":"welcome-42"}')
echo "$job" "$again"
id=$(echo "$job" | field id)
[ "$id" = "$(echo "$again" | field id)" ]

echo "# why does it not run?"
call GET "/v1/queues/mail/jobs/$id/explain"

echo "# claim: the lease carries a token, which grows with every lease of the job"
lease=$(call POST /v1/claim '{"queues":["mail"],"tasks":["welcome"],"worker":"curl","ttl":"30s","wait":"5s"}')
echo "$lease"
token=$(echo "$lease" | sed -n 's/.*"token":"\([0-9]*\)","expires_at.*/\1/p')

echo "# extend: a heartbeat, with progress"
call POST /v1/extend "{\"ttl\":\"1m\",\"leases\":[{\"queue\":\"mail\",\"id\":\"$id\",\"token\":\"$token\",\"progress\":{\"percent\":50}}]}"

echo "# settle"
call POST /v1/settle "{\"settlements\":[{\"queue\":\"mail\",\"id\":\"$id\",\"token\":\"$token\",\"kind\":\"ack\",\"result\":{\"sent\": true}}]}"

echo "# the result, from anywhere"
call POST /v1/await "{\"jobs\":[{\"queue\":\"mail\",\"id\":\"$id\"}],\"wait\":\"5s\"}"

echo "# operate"
call POST /v1/queues/mail/pause
call POST /v1/queues/mail/resume
call POST /v1/queues/mail/settings '{"set":[{"kind":"limit","name":"provider","limit":{"tasks":["welcome"],"count":10,"every":"1s"}}]}'
call POST /v1/queues/mail/delete '{"filter":{"states":["done"]}}'
call GET /v1/queues
echo "# done"
