-- wrk's requests: each with a prompt and an Idempotency-Key of its own. Arguments: run, file for the ids of accepted jobs.
local threads = 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end

function init(args)
  count = 0
  run = args[1] or "run"
  headers = { ["Content-Type"] = "application/json", ["Authorization"] = "Bearer " .. (os.getenv("BENCH_KEY") or "none") }
  if args[2] then ids = io.open(args[2] .. "." .. number, "w") end
  if not ids then response = nil end
end

function request()
  count = count + 1
  local name = run .. "-" .. number .. "-" .. count
  headers["Idempotency-Key"] = name
  return wrk.format("POST", nil, headers, '{"prompt": "a red circle left of a blue square, number ' .. name .. '", "steps": 8}')
end

function response(status, answer, body)
  if ids and status == 202 then ids:write(body:match('"id":"([^"]+)"'), "\n") end
end

function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format('RESULT {"requests": %d, "seconds": %f, "failed": %d, "p50_ms": %f, "p99_ms": %f}',
    summary.requests, summary.duration / 1e6, errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
