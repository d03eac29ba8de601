// A published client that opens URLs for its user calls a tool of the agent at MCP_URL whose calls need an approval, with the token
// MCP_TOKEN: a call that the user approves, one that the user denies, and one that the client declines.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { report, visit } from './visit.js'

const { MCP_URL, MCP_TOKEN } = process.env
const asked = []
const client = new Client({ name: 'peer', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } }, capabilities: { elicitation: { url: {} } } })
client.setRequestHandler('elicitation/create', async ({ params }) => {
  asked.push({ mode: params.mode, message: params.message })
  if (asked.length === 3) return { action: 'decline' }
  await visit(params.url)
  return { action: 'accept' }
})
await client.connect(new StreamableHTTPClientTransport(new URL(MCP_URL), { requestInit: { headers: { authorization: `Bearer ${MCP_TOKEN}` } } }))
const pay = (cents) => client.callTool({ name: 'pay', arguments: { cents } })
const approved = await pay(1)
const denied = await pay(2)
const declined = await pay(3)
await client.close()
const codeOf = (result) => result._meta?.['dev.cardea.iam/error']?.code
report({ asked, approved: approved.structuredContent, denied: codeOf(denied), declined: codeOf(declined) })
