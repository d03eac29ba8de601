// Published clients of the Model Context Protocol, each as its users write it. They list the tools of the agent at MCP_URL with the key
// MCP_KEY, and call find-order. What they saw is printed as JSON.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as FormerClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as FormerTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { MCPServerStreamableHttp } from '@openai/agents-core'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

const { MCP_URL, MCP_KEY } = process.env
const requestInit = { headers: { authorization: `Bearer ${MCP_KEY}` } }
const calls = { found: { number: '1007' }, failed: { number: 7 } }

// seen lists the tools with a connected client, and calls one with right and with wrong arguments.
async function seen(client, revision) {
  const spoken = revision()
  const { tools } = await client.listTools()
  const found = await client.callTool({ name: 'find-order', arguments: calls.found })
  const failed = await client.callTool({ name: 'find-order', arguments: calls.failed })
  const unknown = await client.callTool({ name: 'drop-order', arguments: {} }).catch((error) => error)
  await client.close()
  return { revision: spoken, tools, found, failed, unknown: String(unknown.message) }
}

async function current(mode) {
  const client = new Client({ name: 'peer', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(new StreamableHTTPClientTransport(new URL(MCP_URL), { requestInit }))
  return seen(client, () => client.getNegotiatedProtocolVersion())
}

async function former() {
  const client = new FormerClient({ name: 'peer', version: '1' })
  const transport = new FormerTransport(new URL(MCP_URL), { requestInit })
  await client.connect(transport)
  return seen(client, () => transport.protocolVersion)
}

async function agents() {
  const server = new MCPServerStreamableHttp({ url: MCP_URL, name: 'cardea', requestInit })
  await server.connect()
  const tools = await server.listTools()
  const found = await server.callToolResult('find-order', calls.found)
  const failed = await server.callToolResult('find-order', calls.failed)
  const unknown = await server.callToolResult('drop-order', {}).catch((error) => error)
  await server.close()
  return { revision: '', tools, found, failed, unknown: String(unknown.message) }
}

// schemas compiles every inputSchema as strictly as ajv can.
function schemas(tools) {
  const ajv = new Ajv2020({ strict: true, allErrors: true })
  addFormats(ajv)
  return tools.map(({ name, inputSchema }) => {
    const validate = ajv.compile(inputSchema)
    return { name, sound: ajv.validateSchema(inputSchema), open: name === 'find-order' && (validate(calls.failed) || !validate(calls.found)) }
  })
}

const pinned = await current({ pin: '2026-07-28' })
console.log(JSON.stringify({
  clients: { pinned, auto: await current('auto'), legacy: await current('legacy'), former: await former(), agents: await agents() },
  schemas: schemas(pinned.tools),
}))
