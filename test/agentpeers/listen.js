// A published client listens for changes of the tools of the agent at MCP_URL with the key MCP_KEY. It prints "listening" once the server
// acknowledged, then the tools after the first change as JSON, and ends.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const { MCP_URL, MCP_KEY } = process.env
let changed
const change = new Promise((resolve) => {
  changed = resolve
})
const client = new Client(
  { name: 'peer', version: '1' },
  {
    versionNegotiation: { mode: { pin: '2026-07-28' } },
    listChanged: { tools: { autoRefresh: true, debounceMs: 0, onChanged: (error, tools) => changed({ error: error ? String(error) : '', tools }) } },
  },
)
await client.connect(new StreamableHTTPClientTransport(new URL(MCP_URL), { requestInit: { headers: { authorization: `Bearer ${MCP_KEY}` } } }))
const honored = client.autoOpenedSubscription.honoredFilter
console.log('listening')
const { error, tools } = await change
await client.close()
console.log(JSON.stringify({ honored, error, tools }))
