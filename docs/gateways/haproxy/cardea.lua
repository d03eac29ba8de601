-- Asks Cardea about a request: http-request lua.cardea, with the URL to ask in txn.cardea_url. The answer's status is then in
-- txn.cardea_status, and what it says about limits in txn.cardea_retry_after, txn.cardea_ratelimit and txn.cardea_policy. It says itself
-- which request it asks about and who sent it, whatever the client claims. No answer is 503.
local identity = {
  "x-cardea-key-id", "x-cardea-app", "x-cardea-deployment-id", "x-cardea-permissions", "x-cardea-owner-user-id",
}

core.register_action("cardea", { "http-req" }, function(txn)
  local asked = {
    ["x-original-method"] = { txn.sf:method() },
    ["x-original-uri"] = { txn.sf:pathq() },
    ["x-forwarded-for"] = { txn.sf:src() },
  }
  local sent = txn.http:req_get_headers()
  for _, name in ipairs({ "authorization", "x-api-key" }) do
    if sent[name] then
      asked[name] = {}
      for i = 0, #sent[name] do -- HAProxy counts from 0, and every value is passed on: two credentials are refused
        table.insert(asked[name], sent[name][i])
      end
    end
  end
  local answer = core.httpclient():get({ url = txn:get_var("txn.cardea_url"), headers = asked, timeout = 1000 })
  local status = answer and answer.status or 0
  if status == 0 or status >= 500 then
    status = 503
  end
  txn:set_var("txn.cardea_status", status)
  local function first(name)
    local values = answer and answer.headers and answer.headers[name]
    return values and values[0] or ""
  end
  txn:set_var("txn.cardea_retry_after", first("retry-after"))
  txn:set_var("txn.cardea_ratelimit", first("ratelimit"))
  txn:set_var("txn.cardea_policy", first("ratelimit-policy"))
  for _, name in ipairs(identity) do -- in place of what the client sent under these names
    txn.http:req_set_header(name, first(name))
  end
end)
