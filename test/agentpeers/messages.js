// Checks messages of an agent's server against the schemas in the published packages: those of 2026-07-28 by the current client's, those of
// earlier revisions by the former SDK's. It reads a JSON list of {revision, kind, message} from the standard input, and prints what does
// not fit, as a JSON list of texts.
import { isInputRequiredResult } from '@modelcontextprotocol/client'
import * as current from '@modelcontextprotocol/core/internal'
import * as former from '@modelcontextprotocol/sdk/types.js'
import { readFileSync } from 'node:fs'

const problems = []
for (const { revision, kind, message } of JSON.parse(readFileSync(0, 'utf8'))) {
  const schemas = revision === '2026-07-28' ? current : former
  const wrong = text => problems.push(`${revision} ${kind}: ${text}: ${JSON.stringify(message).slice(0, 300)}`)
  const fits = (name, value, schema = schemas[`${name}Schema`]) => {
    const { success, error } = schema.safeParse(value)
    if (!success) wrong(`${name}: ${error.message}`)
  }
  if (kind === 'InputRequiredResult') {
    // The package publishes no schema of this result as a whole. Requests of the revision have no elicitationId.
    const { resultType, inputRequests, requestState, _meta } = message.result
    fits('JSONRPCResultResponse', message)
    fits('ResultMetaObject', _meta)
    if (!isInputRequiredResult(message.result) || resultType !== 'input_required' || typeof requestState !== 'string') wrong('it asks for no input')
    for (const { method, params } of Object.values(inputRequests)) {
      if (method !== 'elicitation/create' || 'elicitationId' in params) wrong(`the request ${method} is not of this revision`)
      fits('ElicitRequestURLParams', params, schemas.ElicitRequestURLParamsSchema.omit({ elicitationId: true }))
    }
    if (Object.keys(inputRequests).length !== 1) wrong('it has not one request')
  } else if (kind === 'error') {
    fits('JSONRPCErrorResponse', message)
  } else if (message.method) {
    fits('JSONRPCNotification', message)
    fits(kind, message)
  } else {
    fits('JSONRPCResultResponse', message)
    fits(kind, message.result)
  }
}
console.log(JSON.stringify(problems))
