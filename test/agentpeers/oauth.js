// A published client that has no token and knows the agent's URL only, MCP_URL. It discovers the authorization server, registers, lets the
// user authorize it, and calls tools. The token lacks the scope of the second tool, so that the client asks the user for more.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { report, visit } from './visit.js'

const { MCP_URL, REDIRECT_URI } = process.env
const kept = { registrations: 0, visits: [] }
let asked
const authProvider = {
  redirectUrl: REDIRECT_URI,
  clientMetadata: { client_name: 'Agent', redirect_uris: [REDIRECT_URI], token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'] },
  state: () => 'the state',
  clientInformation: () => kept.client,
  saveClientInformation: (client) => {
    kept.client = client
    kept.registrations++
  },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => {
    kept.tokens = tokens
  },
  redirectToAuthorization: (url) => {
    asked = url
  },
  saveCodeVerifier: (verifier) => {
    kept.verifier = verifier
  },
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => {
    kept.discovery = state
  },
  discoveryState: () => kept.discovery,
}

// authorized does something, and again after the user authorized the client if that is needed.
async function authorized(work) {
  const transport = new StreamableHTTPClientTransport(new URL(MCP_URL), { authProvider })
  const client = new Client({ name: 'peer', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  try {
    await client.connect(transport)
    return await work(client)
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error
  }
  kept.visits.push(asked.searchParams.get('scope'))
  const back = await visit(asked)
  await transport.finishAuth(back.searchParams)
  await client.close()
  return authorized(work)
}

const { tools } = await authorized((client) => client.listTools())
const first = kept.tokens.scope
const found = await authorized((client) => client.callTool({ name: 'find-order', arguments: { number: '1007' } }))
const cancelled = await authorized((client) => client.callTool({ name: 'cancel-order', arguments: { number: '1007' } }))
report({
  registrations: kept.registrations, visits: kept.visits, tools: tools.map(({ name }) => name), found: found.structuredContent, cancelled: cancelled.structuredContent,
  scopes: [first, kept.tokens.scope], client: kept.client.client_id, resource: asked.searchParams.get('resource'), method: asked.searchParams.get('code_challenge_method'),
})
