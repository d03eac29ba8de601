// Checks messages of an agent's server against the schemas in the published packages: those of 2026-07-28 by the current client's, those of
// earlier revisions by the former SDK's. It reads a JSON list of {revision, kind, message} from the standard input, and prints what does
// not fit, as a JSON list of texts.
import * as current from '@modelcontextprotocol/core/internal'
import * as former from '@modelcontextprotocol/sdk/types.js'
import { readFileSync } from 'node:fs'

const problems = []
for (const { revision, kind, message } of JSON.parse(readFileSync(0, 'utf8'))) {
  const schemas = revision === '2026-07-28' ? current : former
  const fits = (name, value) => {
    const { success, error } = schemas[`${name}Schema`].safeParse(value)
    if (!success) problems.push(`${revision} ${kind}: ${name}: ${error.message}: ${JSON.stringify(message).slice(0, 300)}`)
  }
  if (kind === 'error') {
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
