// An MCP server that accepts tokens of the issuer, and an MCP client of that server. The client is identified by the URL of its metadata if
// CLIENT_METADATA_URL is set; otherwise it registers.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { mcpAuthMetadataRouter, getOAuthProtectedResourceMetadataUrl } from '@modelcontextprotocol/sdk/server/auth/router.js'
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import express from 'express'
import { visit, tell, ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } from './visit.js'

const { MCP_URL, CLIENT_METADATA_URL } = process.env
const resource = new URL(MCP_URL)

// The server introspects each token at the issuer, as the client that is declared for its resource.
const oauthMetadata = await (await fetch(`${ISSUER}/.well-known/openid-configuration`)).json()
const verifier = {
  async verifyAccessToken(token) {
    const response = await fetch(oauthMetadata.introspection_endpoint, {
      method: 'POST', body: new URLSearchParams({ token }),
      headers: { authorization: `Basic ${Buffer.from(`${CLIENT_ID}:${CLIENT_SECRET}`).toString('base64')}` },
    })
    const told = await response.json()
    if (!told.active) throw new InvalidTokenError('the token is not active')
    return { token, clientId: told.client_id, scopes: (told.scope ?? '').split(' '), expiresAt: told.exp, resource: new URL([told.aud].flat()[0]), extra: { sub: told.sub } }
  },
}
const app = express()
app.use(express.json())
app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: resource, scopesSupported: ['jobs:read'] }))
app.post(resource.pathname, requireBearerAuth({ verifier, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource), expectedResource: resource }), async (req, res) => {
  const server = new McpServer({ name: 'jobs', version: '1' })
  server.registerTool('whoami', { description: 'Who calls.' }, ({ authInfo }) => ({ content: [{ type: 'text', text: authInfo.extra.sub }] }))
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  await server.connect(transport)
  await transport.handleRequest(req, res, req.body)
})
await new Promise((resolve) => app.listen(Number(resource.port), resource.hostname, resolve))

// The client.
const kept = {}
let asked
const authProvider = {
  redirectUrl: REDIRECT_URI,
  clientMetadataUrl: CLIENT_METADATA_URL || undefined,
  clientMetadata: { client_name: 'Agent', redirect_uris: [REDIRECT_URI], token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'] },
  state: () => 'the state',
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens },
  redirectToAuthorization: (url) => { asked = url },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier },
  codeVerifier: () => kept.verifier,
}
const call = async () => {
  const client = new Client({ name: 'agent', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(resource, { authProvider }))
  const { content } = await client.callTool({ name: 'whoami' })
  await client.close()
  return content[0].text
}
const first = new StreamableHTTPClientTransport(resource, { authProvider })
try {
  await new Client({ name: 'agent', version: '1' }).connect(first)
  throw new Error('the server took a call without a token')
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error
}
const back = await visit(asked)
await first.finishAuth(back.searchParams.get('code'))
const sub = await call()
kept.tokens = { ...kept.tokens, access_token: 'gone' } // the server refuses it, and the client refreshes
tell({ sub, again: await call(), client: kept.client.client_id })
