# The bucket, and what hosts may do in it and at AWS.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name         = "kairoscope"
  results_days = 90
  keep         = false
  prefix       = "kairoscope-eu-central-1"
  bucket_arn   = "arn:aws:s3:::kairoscope-results-1"
  ssm          = false
  boundary     = null
}

run "bucket" {
  module {
    source = "./modules/results"
  }

  assert {
    condition = (
      aws_s3_bucket_public_access_block.results.block_public_acls && aws_s3_bucket_public_access_block.results.block_public_policy &&
      aws_s3_bucket_public_access_block.results.ignore_public_acls && aws_s3_bucket_public_access_block.results.restrict_public_buckets &&
      aws_s3_bucket_ownership_controls.results.rule[0].object_ownership == "BucketOwnerEnforced"
    )
    error_message = "Nothing in it may become public."
  }

  assert {
    condition = (
      aws_s3_bucket_versioning.results.versioning_configuration[0].status == "Enabled" &&
      one(aws_s3_bucket_server_side_encryption_configuration.results.rule).apply_server_side_encryption_by_default[0].sse_algorithm == "AES256"
    )
    error_message = "Versioned and encrypted."
  }

  assert {
    condition = one(jsondecode(aws_s3_bucket_policy.results.policy).Statement) == {
      Sid       = "OnlyByTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = ["arn:aws:s3:::kairoscope-results-1", "arn:aws:s3:::kairoscope-results-1/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }
    error_message = "Refused unless by TLS, and nobody is let in."
  }

  assert {
    condition = (
      aws_s3_bucket_lifecycle_configuration.results.rule[0].filter[0].prefix == "results/" &&
      aws_s3_bucket_lifecycle_configuration.results.rule[0].expiration[0].days == 90 &&
      aws_s3_bucket_lifecycle_configuration.results.rule[1].noncurrent_version_expiration[0].noncurrent_days == 30
    )
    error_message = "Results go after results_days, backups do not; what was deleted is kept for 30 days."
  }

  assert {
    condition     = aws_s3_bucket.results.bucket_prefix == "kairoscope-results-" && aws_s3_bucket.results.force_destroy
    error_message = "Unprotected, it is deleted with what it holds."
  }
}

run "protected_bucket" {
  command   = plan
  state_key = "protected"

  module {
    source = "./modules/results"
  }

  variables {
    keep = true
  }

  assert {
    condition     = !aws_s3_bucket.results.force_destroy
    error_message = "Protected, it is not deleted while it holds anything."
  }
}

run "permissions" {
  command = plan

  module {
    source = "./modules/identity"
  }

  assert {
    condition     = keys(aws_iam_instance_profile.host) == ["kairosdb", "loader", "monitoring", "storage"] && aws_iam_role.host["storage"].name == "kairoscope-eu-central-1-storage"
    error_message = "A role for each group of hosts."
  }

  assert {
    condition = alltrue([
      for role in aws_iam_role.host :
      one(jsondecode(role.assume_role_policy).Statement) == { Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.amazonaws.com" } }
    ])
    error_message = "Only instances may take it."
  }

  assert {
    condition     = keys(aws_iam_role_policy.bucket) == ["loader", "monitoring", "storage"] && length(aws_iam_role_policy.ssm) == 0
    error_message = "KairosDB may do nothing at AWS."
  }

  assert {
    condition = { for role, policy in aws_iam_role_policy.bucket : role => jsondecode(policy.policy).Statement[0].Resource } == {
      storage    = "arn:aws:s3:::kairoscope-results-1/backups/*"
      loader     = "arn:aws:s3:::kairoscope-results-1/results/*"
      monitoring = "arn:aws:s3:::kairoscope-results-1/results/*"
    }
    error_message = "Storage has the backups, the others the results."
  }

  assert {
    condition     = jsondecode(aws_iam_role_policy.bucket["loader"].policy).Statement[*].Action == [["s3:PutObject", "s3:AbortMultipartUpload"]]
    error_message = "Loader hosts put results in and see nothing."
  }

  assert {
    condition = jsondecode(aws_iam_role_policy.bucket["storage"].policy).Statement[1] == {
      Effect    = "Allow"
      Action    = "s3:ListBucket"
      Resource  = "arn:aws:s3:::kairoscope-results-1"
      Condition = { StringLike = { "s3:prefix" = "backups/*" } }
    }
    error_message = "Storage lists backups only."
  }

  assert {
    condition = alltrue(flatten([
      for policy in aws_iam_role_policy.bucket : [
        for statement in jsondecode(policy.policy).Statement : [
          for action in flatten([statement.Action]) : !strcontains(action, "*") && !strcontains(action, "Version")
        ]
      ]
    ]))
    error_message = "No wildcard, and no right to delete versions."
  }
}

run "permissions_within_a_boundary" {
  command = plan

  module {
    source = "./modules/identity"
  }

  variables {
    boundary = "arn:aws:iam::123456789012:policy/kairoscope-hosts"
  }

  assert {
    condition     = alltrue([for role in aws_iam_role.host : role.permissions_boundary == "arn:aws:iam::123456789012:policy/kairoscope-hosts"])
    error_message = "No role may be allowed more than the boundary."
  }
}

run "permissions_for_ssm" {
  command = plan

  module {
    source = "./modules/identity"
  }

  variables {
    ssm = true
  }

  assert {
    condition     = length(aws_iam_role_policy.ssm) == 4 && alltrue([for action in jsondecode(aws_iam_role_policy.ssm["storage"].policy).Statement[0].Action : startswith(action, "ssm") && !strcontains(action, "*") && !strcontains(action, "Parameter")])
    error_message = "Sessions, and no more."
  }
}
