variable "prefix" {
  description = "Prefix of names; unique in the account, as roles are of no region."
  type        = string
}

variable "bucket_arn" {
  description = "ARN of the bucket for results and backups."
  type        = string
}

variable "ssm" {
  description = "Whether hosts are reached through AWS Systems Manager."
  type        = bool
}

variable "boundary" {
  description = "ARN of the policy that bounds what any of the roles can be allowed; null for none."
  type        = string
}
