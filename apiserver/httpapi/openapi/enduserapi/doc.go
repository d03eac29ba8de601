// Package enduserapi holds the types of the end-user API, generated from enduser.yaml.
package enduserapi
