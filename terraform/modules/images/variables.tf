variable "region" {
  description = "AWS region."
  type        = string
}

variable "scylla_version" {
  description = "ScyllaDB release."
  type        = string
}

variable "debian_version" {
  description = "Debian release."
  type        = string
}

variable "ssm_agent" {
  description = "Whether hosts need the agent of AWS Systems Manager."
  type        = bool
}

variable "ids" {
  description = "Images by id in place of the newest of their names: scylla, debian; null for the newest."
  type        = map(string)
}
